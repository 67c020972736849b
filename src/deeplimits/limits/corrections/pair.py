"""Two inputs: how the kernels of a pair at width n differ from their limits, to first order in 1/n.

Everything closes on the two inputs. A pair's entries are p = 0 (first input with itself), 1 (second), 2 (both).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.corrections.layer import DenseLayer
from deeplimits.limits.corrections.pair_moments import ENTRIES, Groups, Moments, moments
from deeplimits.numerics.gaussian.family import Family

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairState:
    """Preactivations z_i(x) and their NTK Theta_ij(x, x') in one layer, for each of M pairs of inputs.

    Attributes:
        k: K_p, covariances, shape (M, 3).
        h: H_p, NTK, shape (M, 3).
        k_shift: n (E z z - K), shape (M, 3).
        h_shift: n (E Theta_11 - H), shape (M, 3).
        v: V_pq = n Cov((z_1 z_1)_p, (z_2 z_2)_q), shape (M, 3, 3).
        d: D_pq = n Cov(Theta_11,p, (z_2 z_2)_q), shape (M, 3, 3).
        f: F_acbd = n E[Theta_12(a, b) z_1(c) z_2(d)], shape (M, 2, 2, 2, 2).
        a: A_pq = n Cov(Theta_11,p, Theta_22,q), shape (M, 3, 3).
        b: B_abcd = n E[Theta_12(a, b) Theta_12(c, d)], shape (M, 2, 2, 2, 2).
        groups: which of the inputs share a norm, and so a variance in every layer.
        error: largest relative error of the Gaussian expectations so far.
    """

    k: Array
    h: Array
    k_shift: Array
    h_shift: Array
    v: Array
    d: Array
    f: Array
    a: Array
    b: Array
    groups: Groups
    error: float = 0.0

    @property
    def h_variance(self) -> Array:
        """n Var(Theta_11,p) = A_pp + B_abab + B_abba, shape (M, 3)."""
        crossed = [self.b[:, i, j, i, j] + self.b[:, i, j, j, i] for i, j in ENTRIES]
        return np.einsum("mpp->mp", self.a) + np.stack(crossed, axis=1)


def first_layer(layer: DenseLayer, gram: Array) -> PairState:
    """Return the state above the inputs; gram = x.x'/d, shape (M, 3)."""
    count, k = len(gram), layer.weight * gram + layer.bias
    three, four, one = np.zeros((count, 3, 3)), np.zeros((count, 2, 2, 2, 2)), np.zeros_like(gram)
    v = -sphere(layer.weight * gram) if layer.orthogonal else three
    return PairState(k, k, one, one, v, three, four, three, four, Groups.of(gram))


def sphere(k: Array) -> Array:
    """Return k_ac k_bd + k_ad k_bc for entries (ab), (cd): what fixed norms and angles take from V, (M, 3, 3)."""
    full = square(k)
    rows = [[full[:, a, c] * full[:, b, d] + full[:, a, d] * full[:, b, c] for c, d in ENTRIES] for a, b in ENTRIES]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)


def square(entries: Array) -> Array:
    """Return symmetric matrices (M, 2, 2) of their entries (M, 3)."""
    return entries[:, np.array([[0, 2], [2, 1]])]


def next_layer(family: Family, layer: DenseLayer, state: PairState) -> PairState:
    """Return the state one activation and one dense layer further.

    With s_p = <phi phi>_p, g_p = <phi' phi'>_p, J, J' their derivatives in k, S, S' their second ones, C the weights'
    variance and T = C J + C diag(H) J':

    V' = C^2 (Cov(s, s) + J V J^T), G1' = C (J G1 + tr(S V) / 2),
    D' = C^2 [Cov(s, s) + H_p Cov(g, s)] + C T V J^T + C^2 diag(g) D J^T,
    F'_acbd = C^2 [<phi'_a phi_c phi'_b phi_d> H_ab + sum_ef <d_e(phi'_a phi_c)> <d_f(phi'_b phi_d)> F_aebf],
    A' = C^2 Cov(s + H g, s + H g) + T V T^T + C diag(g) D T^T + transposed + C^2 g_p g_q A_pq,
    B'_abcd = C^2 [<phi'_a phi'_b phi'_c phi'_d> H_ab H_cd + g_ac g_bd B_abcd],
    H1'_p = C [J G1 + tr(S V) / 2]_p + C g_p H1_p + C H_p [J' G1 + tr(S' V) / 2]_p
    + C sum_(q=cd) J'_pq (D_pq + F_acbd + F_adbc).

    Orthogonal W: V'_pq - C^2 (s_ac s_bd + s_ad s_bc), F'_acbd - C^2 H_ab g_ab s_cd, B'_abcd - C^2 H_ab g_ab H_cd g_cd.

    Source: guillen-2025-feynman-ntk (what is computed); derived (the equations).
    """
    at = moments(family, state.k, state.groups)
    weight, h, v = layer.weight, state.h, state.v
    kick = weight * (at.slope + h[:, :, None] * at.slope_slope)
    noise = at.joint[..., :3, :3] - at.s[:, :, None] * at.s[:, None, :]
    mixed = at.joint[..., 3:, :3] - at.g[:, :, None] * at.s[:, None, :]
    steep = at.joint[..., 3:, 3:] - at.g[:, :, None] * at.g[:, None, :]
    mixed, steep = h[:, :, None] * mixed, h[:, :, None] * h[:, None, :] * steep
    moved, kicked = _mul(v, at.slope, True), _mul(kick, v)
    gained = weight * at.g[:, :, None] * state.d
    pull = _mul(gained, kick, True)
    k_shift = _shift(at.slope, at.bend, state)
    squared = weight**2
    return PairState(
        k=weight * at.s + layer.bias,
        h=weight * at.s + layer.bias + weight * at.g * h,
        k_shift=weight * k_shift,
        h_shift=weight * (k_shift + at.g * state.h_shift + h * _shift(at.slope_slope, at.slope_bend, state))
        + weight * np.einsum("mpq,mpq->mp", at.slope_slope, state.d + _crossed(state.f)),
        v=squared * (noise + _mul(at.slope, moved) - layer.orthogonal * sphere(at.s)),
        d=squared * (noise + mixed) + weight * (_mul(kicked, at.slope, True) + _mul(gained, at.slope, True)),
        f=squared * _next_f(at, state, layer.orthogonal),
        a=squared * (noise + mixed + np.swapaxes(mixed, 1, 2) + steep) + _mul(kicked, kick, True)
        + pull + np.swapaxes(pull, 1, 2) + squared * at.g[:, :, None] * at.g[:, None, :] * state.a,
        b=squared * _next_b(at, state, layer.orthogonal),
        groups=state.groups,
        error=max(state.error, at.error),
    )  # fmt: skip


def _mul(a: Array, b: Array, transpose: bool = False) -> Array:
    return a @ (np.swapaxes(b, 1, 2) if transpose else b)


def _shift(slope: Array, bend: Array, state: PairState) -> Array:
    """Return J G1 + tr(S V) / 2, shape (M, 3)."""
    return np.einsum("mpq,mq->mp", slope, state.k_shift) + np.einsum("mpqr,mqr->mp", bend, state.v) / 2


def _crossed(f: Array) -> Array:
    """Return F_acbd + F_adbc for entries p = (ab), q = (cd), shape (M, 3, 3)."""
    rows = [[f[:, a, c, b, d] + f[:, a, d, b, c] for c, d in ENTRIES] for a, b in ENTRIES]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)


def _next_f(at: Moments, state: PairState, orthogonal: bool) -> Array:
    carried = np.einsum("mace,mbdf,maebf->macbd", at.turn, at.turn, state.f)
    found = np.einsum("mabcd,mab->macbd", at.full("gs"), square(state.h)) + carried
    if not orthogonal:
        return found
    return found - np.einsum("mab,mcd->macbd", square(state.h * at.g), square(at.s))


def _next_b(at: Moments, state: PairState, orthogonal: bool) -> Array:
    h, g = square(state.h), square(at.g)
    found = at.full("gg") * np.einsum("mab,mcd->mabcd", h, h) + np.einsum("mac,mbd,mabcd->mabcd", g, g, state.b)
    return found - np.einsum("mab,mcd->mabcd", h * g, h * g) if orthogonal else found


def pair(family: Family, layers: Sequence[DenseLayer], gram: Array) -> PairState:
    """Return the state above the last layer, for M pairs of inputs.

    Args:
        family: the activation.
        layers: the dense layers, first to last; between two of them stands the activation.
        gram: (x.x, x'.x', x.x')/d of each pair, shape (M, 3).

    Valid when: the two inputs of a pair are not proportional for an activation with a kink.

    Example:
        >>> from deeplimits.numerics.gaussian.linear import Linear
        >>> found = pair(Linear(), [DenseLayer(1.0)] * 3, np.array([[1.0, 1.0, 0.5]]))
        >>> found.v[0].round(12).tolist()
        [[4.0, 1.0, 2.0], [1.0, 4.0, 2.0], [2.0, 2.0, 2.5]]
    """
    state = first_layer(layers[0], gram)
    for layer in layers[1:]:
        state = next_layer(family, layer, state)
    return state
