"""The figure of training in the mean-field limit."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.report.figures import mean_field as drawing


def test_what_the_panels_show():
    y = np.array([1.0, -1.0])
    record = dl.mean_field(dl.Mlp("tanh"), np.eye(2), y, depth=2, gamma=2.0, steps=20, rate=0.3, samples=1600)
    outputs = drawing.outputs_data(record)
    assert outputs.targets == (-1.0, 1.0) and outputs.outputs[0][-1] == record.outputs[-1, 1]
    assert outputs.errors[0][-1] == record.outputs_error[-1, 1] > 0
    assert drawing.loss_data(record).values[0][0] == pytest.approx(1.0)
    kernel = drawing.kernel_data(record)
    ntk = dl.kernel(dl.Mlp("tanh"), np.eye(2), depth=2, get="ntk")
    assert kernel.values[0][0] == pytest.approx(0.3 * np.linalg.eigvalsh(ntk)[-1], rel=0.05)
    assert kernel.level == 2.0 and "errors grow above: 2" in kernel.describe()
    features = drawing.features_data(record)
    assert features.names == ("layer 1", "layer 2") and features.values[1][0] == 0 < features.values[1][-1]
    assert len(dl.plot(record).axes) == 4


def test_infinite_depth_names_layers_by_their_time():
    record = dl.mean_field(dl.ResNet("identity"), np.eye(2), [1.0, -1.0], depth=np.inf, gamma=1.0, steps=3, rate=0.1)
    assert drawing.features_data(record).names == ("τ = 0", "τ = 0.5", "τ = 1")
    assert len(dl.plot(record).axes) == 4
