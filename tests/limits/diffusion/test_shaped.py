"""Networks shaped by their width, at fixed width and depth, beside sampled ones."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.errors import NoLimit

PAIR = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0]])


@pytest.mark.parametrize("net", [dl.ShapedMlp(), dl.layer.ShapedResNet(0.6, 1.0, -2.0)], ids=["perceptron", "skips"])
def test_a_finite_depth_is_the_sampled_network_in_law(net):
    found = dl.diffusion(net, PAIR, width=16, depth=6, samples=1500, seed=1)
    sampled = dl.sample(net, PAIR, width=16, depth=6, networks=1500, seed=2, get="nngp")
    error = np.hypot(found.standard_error, sampled.standard_error)
    assert float(np.abs((found.mean - sampled.mean) / error).max()) < 4.5
    error = np.hypot(found.log_variance_error, sampled.log_variance_error)
    assert float(np.abs((found.log_variance - sampled.log_variance) / error).max()) < 4.5
    with pytest.raises(NoLimit, match="no diffusion limit at fixed width"):
        dl.diffusion(net, PAIR, width=16, samples=4, seed=1)
