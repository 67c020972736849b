import numpy as np

from deeplimits.limits.training.mean_field.noise import DIRECTIONS, Growing, Normals


def test_normals_have_their_moments_in_every_direction_and_streams_differ():
    rows = Normals(1024, 0, "one").take(DIRECTIONS + 10)
    assert np.abs(rows.mean(1)).max() < 4 / 32 and np.abs(rows.var(1) - 1).max() < 4 * 2**0.5 / 32
    assert np.abs(rows[:8].mean(1)).max() < 0.01  # a tenth of what independent points leave
    assert not np.allclose(rows[0], Normals(1024, 0, "two").take(1))
    in_two = Normals(1024, 0, "one")
    np.testing.assert_array_equal(np.concatenate([in_two.take(3), in_two.take(DIRECTIONS + 7)]), rows)


def test_a_process_that_grows_has_its_covariance():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 4))  # rank 4: the last rows follow from the first
    covariance = root @ root.T
    process = Growing(6, Normals(4096, 0, "grow"))
    sampled = np.concatenate([process.extend(covariance[a : a + 2, : a + 2]) for a in (0, 2, 4)])
    assert len(process.pivots) == 4
    np.testing.assert_allclose(sampled @ sampled.T / 4096, covariance, atol=0.05)
    beside = process.beside(covariance[:1] + 0.0, covariance[0, :1])
    np.testing.assert_allclose(beside[0], sampled[0], atol=1e-6)


def test_slopes_of_functions_of_a_process():
    covariance = np.array([[1.0, 0.5], [0.5, 2.0]])
    process = Growing(2, Normals(4096, 0, "slopes"))
    x = process.extend(covariance)
    found = process.slopes(np.stack([3 * x[0] - x[1], np.tanh(x[1])]), 2)
    np.testing.assert_allclose(found[0], [3, -1], atol=0.02)
    np.testing.assert_allclose(found[1], [0, (1 - np.tanh(x[1]) ** 2).mean()], atol=0.02)


def test_nothing_moves_without_variance():
    process = Growing(2, Normals(16, 0, "nothing"))
    assert not process.extend(np.zeros((2, 2))).any() and not process.pivots
    assert not process.slopes(np.ones((1, 16)), 2).any()
