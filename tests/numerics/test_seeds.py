import numpy as np
import pytest

from deeplimits.errors import DeepLimitsError
from deeplimits.numerics.seeds import generator, torch_generator


def test_a_stream_depends_on_its_name_alone():
    first = generator(3, "network", 5).standard_normal(4)
    generator(3, "network", 6).standard_normal(4)
    assert np.array_equal(first, generator(3, "network", 5).standard_normal(4))


@pytest.mark.parametrize(
    "other", [(4, "network", 5), (3, "network", 6), (3, "network", "5"), (3, "networ", "k", 5), (3, 5, "network")]
)
def test_other_names_give_other_streams(other):
    assert not np.array_equal(
        generator(3, "network", 5).integers(2**32, size=4), generator(*other).integers(2**32, size=4)
    )


def test_streams_are_the_same_on_every_machine():
    assert generator(0, "a", 1).integers(0, 2**32, size=3).tolist() == RECORDED


RECORDED = [3467257798, 619757997, 3428187174]


def test_torch_stream_repeats():
    torch = pytest.importorskip("torch")
    one, two = (torch.randn(5, generator=torch_generator(7, "w", 2)) for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, torch.randn(5, generator=torch_generator(7, "w", 3)))


def test_neighbouring_streams_are_uncorrelated():
    draws = np.stack([generator(0, "network", index).standard_normal(2000) for index in range(20)])
    off = np.corrcoef(draws)[np.triu_indices(20, 1)]
    assert np.abs(off).max() < 5 / np.sqrt(2000)


@pytest.mark.parametrize("seed", [-1, 0.5, "a", None, True])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(DeepLimitsError) as caught:
        generator(seed, "a")
    assert repr(seed) in str(caught.value) and "seed=0" in str(caught.value)
