"""Kernel machines beside scikit-learn's linear ones on features, and beside their own optimality conditions."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

import deeplimits as dl
from deeplimits.errors import ConvergenceWarning, DescriptionError, InputError, PrecisionError
from deeplimits.limits.training.machine.loss import loss_of

machine = dl.training.kernel_machine
RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 3))
LABELS = np.sign(X[:, 0] * X[:, 1] + 0.3 * RNG.standard_normal(24))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]
KERNEL = dl.kernel(dl.Mlp("relu"), X, depth=1, get="ntk")
VALUES, VECTORS = np.linalg.eigh(KERNEL)
FEATURES = (VECTORS * np.sqrt(VALUES)) @ VECTORS.T
LOSSES = ("hinge", "squared_hinge", "logistic", "epsilon_insensitive", "huber", "squared")
EXACT = {"fit_intercept": False, "tol": 1e-10, "max_iter": 10_000_000}


def targets(loss):
    return LABELS if loss in LOSSES[:3] else NUMBERS


def theirs(loss, C):
    if loss == "logistic":
        model = LogisticRegression(C=C, solver="newton-cholesky", fit_intercept=False, tol=1e-12)
    elif loss == "epsilon_insensitive":
        model = LinearSVR(epsilon=0.2, C=C, **EXACT)
    elif loss == "squared":
        return KernelRidge(alpha=1 / C, kernel="precomputed").fit(KERNEL, NUMBERS).predict(KERNEL)
    else:
        model = LinearSVC(loss=loss, C=C, dual=True, **EXACT)
    return FEATURES @ model.fit(FEATURES, targets(loss)).coef_.ravel()


@pytest.mark.parametrize("C", [0.05, 2.0])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "huber"])
def test_outputs_are_those_of_scikit_learn(loss, C):
    """To 1e-6 (issue), no bias on either side."""
    found = machine(KERNEL, targets(loss), loss, C, 0.2, 1e-13)
    assert np.abs(found.outputs - theirs(loss, C)).max() <= 1e-6


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_minus_c_times_a_slope_of_the_loss(loss, C):
    """What makes a function the minimum, f = K b being so by construction; kinks allow any slope between two."""
    y = targets(loss)
    found = machine(KERNEL, y, loss, C, 0.2, 1e-10)  # at C = 1e4 rounding alone makes a gap of 1e-12
    assert found.converged and found.gap <= 1e-10 * found.objective
    assert found.outputs == pytest.approx(KERNEL @ found.weights)
    chosen, step = loss_of("test", loss, 0.2), 1e-4
    below, above = (-C * chosen.slope(found.outputs + side * step, y) for side in (1, -1))
    curve = 4 * C * step
    assert np.all(found.weights >= below - curve) and np.all(found.weights <= above + curve)


def test_the_gap_bounds_how_far_outputs_are_off():
    best = machine(KERNEL, LABELS, C=5.0, tol=1e-13)
    with pytest.warns(ConvergenceWarning, match=r"after 1 sweeps the gap of primal and dual is \d\.\de-\d\d of the"):
        early = machine(KERNEL, LABELS, C=5.0, tol=1e-13, max_iter=1)
    assert not early.converged and early.sweeps == 1 and early.objective - early.gap <= best.objective
    assert np.all(np.abs(early.outputs - best.outputs) <= np.sqrt(2 * early.gap * np.diagonal(KERNEL)))


def test_rows_that_a_kernel_cannot_tell_apart():
    """Twice the same row at price C is once at 2 C: the weights may differ, the function may not."""
    twice = np.repeat(np.arange(24), 2)
    for loss in LOSSES:
        double = machine(KERNEL[np.ix_(twice, twice)], targets(loss)[twice], loss, 1.0, tol=1e-12)
        assert double.predict(KERNEL[:, twice]) == pytest.approx(
            machine(KERNEL, targets(loss), loss, 2.0, tol=1e-12).outputs, abs=1e-5
        )
    nothing = machine(np.zeros((3, 3)), [1, -1, 1])
    assert nothing.converged and not nothing.outputs.any()


def test_a_large_common_part_of_the_kernel():
    """Weights then balance: one at a time they hardly move."""
    found = machine(KERNEL + 1e4, LABELS, C=1.0)
    assert found.converged


def test_arrays_of_every_kind():
    import torch

    expected = machine(KERNEL, LABELS).weights
    for kernel, y in ((torch.from_numpy(KERNEL), torch.from_numpy(LABELS)), (KERNEL.tolist(), LABELS.astype(int))):
        assert np.array_equal(machine(kernel, y).weights, expected)
    assert machine([[2.0]], [1]).weights == pytest.approx([0.5])


EYE = np.eye(2)
BAD = [
    ((EYE[:1], [1]), {}, r"shape \(1, 2\)"),
    ((np.ones(3), [1]), {}, r"shape \(3,\)"),
    (([[1.0, np.nan], [0.0, 1.0]], [1, -1]), {}, "nan at row 0, column 1"),
    (([[1.0, 0.5], [0.0, 1.0]], [1, -1]), {}, r"0.5 at \(0, 1\) and 0 at \(1, 0\)"),
    ((-EYE, [1, -1]), {}, "-1 at row 0 of its diagonal"),
    (([[1.0, 2.0], [2.0, 1.0]], [1, -1]), {}, "eigenvalue -1"),
    ((EYE, [1, 0]), {}, "y is 0 at row 1"),
    ((EYE, [1, 2, 3]), {}, r"y has shape \(3,\)"),
    ((EYE, [[1], [-1]]), {}, r"y has shape \(2, 1\)"),
    ((EYE, ["a", "b"]), {}, "dtype <U1"),
    ((EYE, [1, np.nan]), {}, "nan at row 1"),
    ((EYE, [1, -1]), {"loss": "hing"}, "did you mean 'hinge'"),
    ((EYE, [1, -1]), {"loss": None}, "loss=None"),
    *(((EYE, [1, -1]), {"C": value}, f"C={value!r}") for value in (0, -1.0, np.nan, np.inf, True, "1", None)),
    ((EYE, [1, -1]), {"tol": 0.0}, r"tol=0\.0"),
    ((EYE, [1, -1]), {"max_iter": 0}, "max_iter"),
    ((EYE, [1, -1]), {"max_iter": 1.5}, "max_iter"),
    ((EYE, [1, -1]), {"loss": "huber", "epsilon": 0.0}, r"epsilon=0\.0"),
    ((EYE, [1, -1]), {"loss": "epsilon_insensitive", "epsilon": -0.1}, r"epsilon=-0\.1"),
]


@pytest.mark.parametrize(("given", "options", "text"), BAD, ids=lambda value: str(value)[:30])
def test_refusals(given, options, text):
    with pytest.raises((InputError, DescriptionError), match=text):
        machine(*given, **options)


def test_numbers_beyond_float64_are_told():
    with pytest.raises(PrecisionError, match="leaves the range of float64"):
        machine(EYE * 1e-300, [1e140, -1.0], "squared", C=1e300)
