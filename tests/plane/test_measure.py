import numpy as np
import pytest

from deeplimits.numerics.seeds import generator
from deeplimits.plane import measure


def correlated(networks, columns=5):
    draws = generator(0, "measure", networks)
    return draws.standard_normal((networks, 1)) + 0.3 * draws.standard_normal((networks, columns))


@pytest.mark.parametrize("networks", [3, 10, 57])
def test_variance_and_its_jackknife_error_equal_brute_force(networks):
    values = correlated(networks)
    found = measure.variance(values)
    left_out = np.array([np.delete(values, s, axis=0).var(axis=0, ddof=1).mean() for s in range(networks)])
    assert found.value == pytest.approx(values.var(axis=0, ddof=1).mean(), rel=1e-12)
    brute = np.sqrt((networks - 1) / networks * np.sum((left_out - left_out.mean()) ** 2))
    assert found.error == pytest.approx(brute, rel=1e-9)


def test_errors_respect_the_dependence_between_inputs():
    trials = [correlated_trial(index) for index in range(400)]
    for found, exact in ((measure.variance, 1.09), (measure.average, 0.0)):
        z = np.array([(e.value - exact) / e.error for e in map(found, trials)])
        assert abs(z.mean()) < 4 * z.std() / 20 + 0.15
        assert 0.85 < z.std() < 1.25


def correlated_trial(index):
    draws = generator(1, "trial", index)
    return draws.standard_normal((200, 1)) + 0.3 * draws.standard_normal((200, 4))


def test_two_networks_give_a_variance_without_a_known_error():
    found = measure.variance(np.array([[1.0], [3.0]]))
    assert found.value == 2.0
    assert found.error == np.inf


def test_kernel_check_counts_entries_and_scores():
    draws = generator(0, "check").standard_normal((400, 3, 3))
    samples = np.eye(3) + 0.05 * (draws + draws.transpose(0, 2, 1))
    found = measure.kernel_check(samples, np.eye(3), 2 * np.eye(3))
    assert found.entries == 6
    assert found.z_max < 4
    assert 0.2 < found.z_rms < 2.5
    assert found.rms.value == pytest.approx(np.sqrt(np.mean(np.sum((samples - np.eye(3)) ** 2, (1, 2)) / 3)))
    assert found.rms_corner.value == pytest.approx(0.5, abs=0.05)
    shifted = measure.kernel_check(samples + 0.1, np.eye(3), None)
    assert shifted.z_max > 10
    assert shifted.rms_corner is None


def test_scores_of_entries_without_fluctuation():
    z = measure.z_scores(np.array([1.0, 1.0]), np.zeros(2), np.array([1.0, 1.1]))
    assert z.tolist() == [0.0, -np.inf]


def test_dead_networks_and_zero_inputs_are_left_out():
    diagonal = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 2.0], [3.0, 0.0, 2.0]])
    logs, alive, dead = measure.log_ratio(diagonal, np.array([1.0, 0.0, 2.0]))
    assert logs.tolist() == [[0.0, 0.0], [pytest.approx(np.log(3)), 0.0]]
    assert alive.tolist() == [True, False, True]
    assert dead == 1


def test_correlations_of_pairs():
    gram = np.array([[[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
    assert measure.correlations(gram).tolist() == [[0.5]]
    assert measure.correlations(np.ones((2, 1, 1))) is None
