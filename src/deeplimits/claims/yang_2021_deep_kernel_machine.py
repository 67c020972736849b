"""Deep Gaussian processes whose layers widen while the likelihood weighs as much: their Gram matrices are optimised."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, pi
from time import process_time
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

INPUTS, FEATURES, OUTPUTS, NOISE, BIAS = 3, 4, 2, 0.1, 0.3
LAYERS = 2
DEGREES, WIDER = 8, 1.2  # of the proposals: Student's t about the optimum, with wider axes
HEADLINE = "exponent in the width N of the distance of the mean Gram matrix to the optimised one, layer 2"


@dataclass(frozen=True)
class Sizes:
    """Widths of deep Gaussian processes, samples of each, starts; rows timed, inducing points, repetitions."""

    widths: tuple[int, ...]
    samples: int
    starts: int
    rows: tuple[int, ...]
    points: int
    repetitions: int


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (P, d) and targets (P, C)."""
    drawn = generator(2, "claims", "deep kernel machine")
    return drawn.standard_normal((INPUTS, FEATURES)), drawn.standard_normal((INPUTS, OUTPUTS))


def relu_kernel(gram: np.ndarray) -> np.ndarray:
    """Return 2 E[relu(u) relu(v)] + BIAS^2 for every pair of features with covariances `gram`, (..., P, P)."""
    lengths = np.sqrt(np.einsum("...ii->...i", gram))
    product = lengths[..., :, None] * lengths[..., None, :]
    cosine = np.clip(gram / product, -1, 1)
    angle = np.arccos(cosine)
    return product * (np.sin(angle) + (pi - angle) * cosine) / pi + BIAS**2


def _start() -> np.ndarray:
    """Return the covariance of the first layer's features, linear in the inputs."""
    X, _ = data()
    return 2 * X @ X.T / FEATURES + BIAS**2


def follow(flat: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return Gram matrices, their KL, and the log likelihood of samples, from Bartlett's factors.

    G_l = C B B^T C^T with C C^T = K(G_{l-1}) and B lower triangular: `flat`, (S, L P (P + 1) / 2), holds for each layer
    the logarithms of its diagonal and what stands below. KL = (|B|^2 - P) / 2 - sum of log B_ii.
    """
    _, y = data()
    size = INPUTS * (INPUTS + 1) // 2
    gram, grams, cost = np.broadcast_to(_start(), (len(flat), INPUTS, INPUTS)), [], np.zeros(len(flat))
    for layer in range(LAYERS):
        part, kernel = flat[:, layer * size : (layer + 1) * size], relu_kernel(gram)
        factor = np.zeros((len(flat), INPUTS, INPUTS))
        factor[:, *np.diag_indices(INPUTS)] = np.exp(part[:, :INPUTS])
        factor[:, *np.tril_indices(INPUTS, -1)] = part[:, INPUTS:]
        root = np.linalg.cholesky(kernel) @ factor
        gram = root @ np.swapaxes(root, 1, 2)
        grams.append(gram)
        cost = cost + 0.5 * ((factor**2).sum((1, 2)) - INPUTS) - part[:, :INPUTS].sum(1)
    matrix = relu_kernel(gram) - BIAS**2
    matrix = matrix / 2 + NOISE * np.eye(INPUTS)
    answer = np.linalg.solve(matrix, np.broadcast_to(y, (len(flat), *y.shape)))
    likelihood = -0.5 * np.einsum("ic,sic->s", y, answer) - 0.5 * OUTPUTS * np.linalg.slogdet(matrix)[1]
    return grams, cost, likelihood - 0.5 * OUTPUTS * INPUTS * log(2 * pi)


def optimum() -> tuple[Any, np.ndarray]:
    """Return the deep kernel machine of the same layers at nu = 1, and its Gram matrices as `follow` takes them."""
    from deeplimits.architecture.zoo import Mlp
    from deeplimits.inference.deep_kernel import DeepKernelMachineRegressor

    X, y = data()
    net = Mlp("relu", bias_std=BIAS)
    machine = DeepKernelMachineRegressor(net, LAYERS + 1, (inf, *[1.0] * LAYERS), NOISE, tol=1e-7, progress=False)
    law: Any = machine.fit(X, y).posterior_
    roots = [root.numpy() for root in law.state.roots if root is not None]
    rows = np.tril_indices(INPUTS, -1)
    return machine, np.concatenate([np.concatenate([np.log(np.diag(root)), root[rows]]) for root in roots])


def weighted(width: int, at: np.ndarray, curvature: np.ndarray, count: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return Gram matrices drawn about the optimum, and their weights (mean 1) under the posterior at width N.

    The posterior: N times the log likelihood, and the law of Wishart matrices with N degrees of freedom a layer, which
    in these coordinates is exp(-N KL) times prod B_ii^(1-i), i = 1..P.
    """
    drawn = generator(width, "claims", "deep kernel machine", "samples")
    scale = np.linalg.cholesky(np.linalg.inv(curvature) / width) * WIDER
    z, radius = drawn.standard_normal((count, len(at))), drawn.chisquare(DEGREES, count) / DEGREES
    flat = at + (z / np.sqrt(radius)[:, None]) @ scale.T
    proposal = -0.5 * (DEGREES + len(at)) * np.log1p((z**2).sum(1) / radius / DEGREES)
    grams, cost, likelihood = follow(flat)
    size = INPUTS * (INPUTS + 1) // 2
    volume = sum(-(flat[:, layer * size : layer * size + INPUTS] @ np.arange(INPUTS)) for layer in range(LAYERS))
    logs = width * (likelihood - cost) + volume - proposal
    weights = np.exp(logs - logs.max())
    return grams, weights / weights.mean()


def _curvature(at: np.ndarray) -> np.ndarray:
    """Return minus the Hessian of the objective, by central differences."""
    step, eye = 1e-4, np.eye(len(at))

    def value(flat: np.ndarray) -> np.ndarray:
        _, cost, likelihood = follow(flat)
        return likelihood - cost

    pairs = step * np.stack([s * eye[:, None] + t * eye[None, :] for s in (1, -1) for t in (1, -1)])
    values = value(at + pairs.reshape(-1, len(at))).reshape(4, len(at), len(at))
    return -(values[0] - values[1] - values[2] + values[3]) / (4 * step**2)


def _elsewhere(at: np.ndarray, starts: int) -> float:
    """Return the largest objective found from random starts, less that at the optimum."""
    from scipy.optimize import minimize

    step, eye = 1e-5, np.eye(len(at))

    def negative(flat: np.ndarray) -> tuple[float, np.ndarray]:
        _, cost, likelihood = follow(np.vstack([flat, flat + step * eye, flat - step * eye]))
        values = cost - likelihood
        return float(values[0]), (values[1 : len(at) + 1] - values[len(at) + 1 :]) / (2 * step)

    drawn = generator(5, "claims", "deep kernel machine", "starts")
    found = [minimize(negative, drawn.standard_normal(len(at)), jac=True).fun for _ in range(starts)]
    return float(negative(at)[0]) - float(min(found))


def _mean(values: np.ndarray, weights: np.ndarray) -> Estimate:
    value = float((weights * values).mean())
    return Estimate(value, float((weights * (values - value)).std(ddof=1) / np.sqrt(len(values))))


def concentration(sizes: Sizes) -> Measured:
    """Measure the mean Gram matrices of deep Gaussian processes of growing width beside the machine's."""
    machine, at = optimum()
    curvature, best = _curvature(at), machine.grams_[1:]
    first = relu_kernel(_start())
    nngp = [first, relu_kernel(first)]
    distances: list[list[Estimate]] = [[] for _ in range(LAYERS)]
    spreads: list[list[float]] = [[] for _ in range(LAYERS)]
    effective, last = [], []
    for width in sizes.widths:
        grams, weights = weighted(width, at, curvature, sizes.samples)
        effective.append(len(weights) / float((weights**2).mean()))
        last = [(weights[:, None, None] * gram).mean(0) for gram in grams]
        for layer, gram in enumerate(grams):
            gap = last[layer] - best[layer]
            way = gap / np.linalg.norm(gap) / np.linalg.norm(best[layer])
            distances[layer].append(_mean(np.einsum("ij,sij->s", way, gram - best[layer]), weights))
            square = ((gram - last[layer]) ** 2).sum((1, 2)) / np.linalg.norm(best[layer]) ** 2
            spreads[layer].append(float((weights * square).mean()) ** 0.5)
    parts, curves, x = [], [], [float(width) for width in sizes.widths]
    for layer in range(LAYERS):
        found = distances[layer]
        fitted = slope(sizes.widths, [d.value for d in found], [d.error for d in found], CONFIDENCE)
        name = HEADLINE if layer == LAYERS - 1 else HEADLINE.replace("layer 2", f"layer {layer + 1}")
        note = f"{min(effective):.0f} effective samples of {sizes.samples} or more at every width"
        parts.append(agreement.inside(name, -1.0, fitted, -1.25, -0.75, note=note))
        title = f"distance of the mean Gram matrix to the optimised one, layer {layer + 1}, N = {sizes.widths[-1]}"
        parts.append(agreement.between(title, 0.0, found[-1], -0.02, 0.02, networks=int(min(effective))))
        moved = float(np.linalg.norm(best[layer] - nngp[layer]) / np.linalg.norm(nngp[layer]))
        parts.append(
            agreement.above(
                f"optimised Gram matrix, distance to the NNGP's, layer {layer + 1}: features are learned", 0.1,
                Estimate(moved, 0.0), paper=False,
            )
        )  # fmt: skip
        line = [found[-1].value * sizes.widths[-1] / width for width in sizes.widths]
        curves.append(
            Curve(f"mean, layer {layer + 1}; line: 1/N", x, [d.value for d in found], [d.error for d in found], line)
        )
        curves.append(Curve(f"spread of one, layer {layer + 1}", x, spreads[layer]))
    parts.append(
        agreement.equal(
            f"objective at the best of {sizes.starts} random starts, less the machine's", 0.0,
            _elsewhere(at, sizes.starts), 1e-5, "the searches' accuracy", paper=False,
            note="no other maximum was found that could hold the posterior's mass",
        )
    )  # fmt: skip
    title = "Gram matrices of wide deep GPs are the machine's"
    return Measured(parts, [Panel(title, "width N", "distance / norm of the Gram matrix", curves, y_scale="log")])


def machine(sizes: Sizes) -> Measured:
    """Compute a linear machine beside its closed form, and the distance of another to the NNGP."""
    from deeplimits.architecture.zoo import Mlp
    from deeplimits.inference.deep_kernel import DeepKernelMachineRegressor
    from deeplimits.inference.deep_kernel_machine import linear_grams
    from deeplimits.limits.kernel.ask import kernel

    drawn = generator(3, "claims", "deep kernel machine")
    rows, y = drawn.standard_normal((4, 6)), drawn.standard_normal((4, 5))
    linear = DeepKernelMachineRegressor(Mlp("identity"), 2, 5.0, 0.0, tol=1e-8, progress=False).fit(rows, y)
    closed = linear_grams(rows @ rows.T / 6, y, 2)
    gap = max(float(np.abs(a - b).max()) for a, b in zip(linear.grams_, closed, strict=True))
    net, prices, gaps = Mlp("relu", bias_std=BIAS), (1e2, 1e3, 1e4), []
    limit = np.asarray(kernel(net, rows, depth=2, get="nngp"))
    for nu in prices:
        law: Any = DeepKernelMachineRegressor(net, 2, nu, NOISE, tol=1e-7, progress=False).fit(rows, y).posterior_
        gaps.append(float(np.abs(law.state.kernel.base.numpy() - limit).max()))
    exponent = float(np.log(gaps[-1] / gaps[-2]) / np.log(prices[-1] / prices[-2]))
    parts = [
        agreement.equal(
            "Gram matrices of a linear machine, less their closed form", 0.0, gap, 1e-6, "the solver's", paper=False
        ),
        agreement.equal(
            "exponent in nu of the distance to the NNGP", -1.0, exponent, 0.02, "the next order", paper=False
        ),
    ]
    return Measured(parts, [])


def cost(sizes: Sizes) -> Measured:
    """Time one evaluation of the objective and its gradient with a fixed number of inducing points."""
    times = np.array([_seconds(rows, sizes.points, sizes.repetitions) for rows in sizes.rows])
    middle, errors = np.median(times, 1), times.std(1, ddof=1) / sizes.repetitions**0.5
    fitted = slope(sizes.rows, middle, np.maximum(errors, 0.01 * middle), CONFIDENCE)
    part = agreement.inside(
        f"exponent in the rows of a step's processor time, {sizes.points} inducing points", 1.0, fitted, 0.7, 1.3,
        paper=False, note="linear in the data by construction; the fixed part of a step pulls the exponent below 1",
    )  # fmt: skip
    line = [float(middle[-1]) * rows / sizes.rows[-1] for rows in sizes.rows]
    curve = Curve(
        f"{sizes.points} inducing points; line: proportional to rows", [float(rows) for rows in sizes.rows],
        middle.tolist(), errors.tolist(), line,
    )  # fmt: skip
    return Measured(
        [part],
        [Panel("A step costs in proportion to the data", "rows", "processor seconds a step", [curve], y_scale="log")],
    )


@one_thread()
def _seconds(rows: int, points: int, repetitions: int) -> list[float]:
    import torch

    from deeplimits.architecture.zoo import Mlp
    from deeplimits.inference.deep_kernel_law import gram
    from deeplimits.inference.deep_kernel_layers import Blocks, layers
    from deeplimits.inference.deep_kernel_machine import Objective, begin

    drawn = generator(4, "claims", "deep kernel machine", "cost")
    X, y = drawn.standard_normal((rows, 10)), drawn.standard_normal((rows, 1))
    own = torch.from_numpy((X**2).mean(1))
    inputs = Blocks(gram(X[:points], X[:points]), gram(X, X[:points]), own)
    cut = layers("cost", Mlp("relu", bias_std=BIAS), 2, X[:points])
    objective = Objective(begin(cut, inputs, torch.from_numpy(y), NOISE, (10.0, 10.0)))
    at, found = np.zeros(objective.task.count()), []
    for _ in range(repetitions + 1):
        start = process_time()
        objective(at)
        found.append(process_time() - start)
    return found[1:]


CLAIM = Claim(
    key="yang-2021-deep-kernel-machine",
    statement=(
        "When the layers of a deep Gaussian process widen and the likelihood is raised to the same power, its Gram "
        "matrices become deterministic and maximise the deep kernel machine's objective: features are learned at "
        "infinite width; with inducing points a step costs in proportion to the data."
    ),
    source="yang-2021-deep-kernel-machine",
    headline=HEADLINE,
    steps=(Step("concentration", concentration, 20.0), Step("machine", machine, 1.0), Step("cost", cost, 10.0)),
    full=Sizes(
        widths=(32, 64, 128, 256, 512),
        samples=200_000,
        starts=24,
        rows=(2000, 4000, 8000, 16000),
        points=50,
        repetitions=11,
    ),
    reduced=Sizes(widths=(32, 64, 128), samples=2_000, starts=2, rows=(1000, 2000), points=20, repetitions=3),
)
