"""The kernel of a dense layer."""

from __future__ import annotations

from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import as_float
from deeplimits.errors import DescriptionError
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.tape import Affine


@kernel.rule(
    Dense,
    source="lee-2018-deep, eq. 5; jacot-2018-ntk, thm 1; naitsaada-2023-pseudo-iid; sohl-dickstein-2020-infinite-width",
    valid="Gaussian or pseudo-iid weights: only n_in Var(W_ij) enters",
)
def dense(layer: Dense, state: Lowering) -> None:
    """K' = sw^2 K + sb^2 and Theta' = sw^2 Theta + K' (NTK parametrization; standard: sw^2 Theta + fan_in K + 1)."""
    fixed = layer.weights.fixed_size()
    if fixed is not None:
        why = f"weights with a fixed {fixed} have no limit at infinite width"
        fix = "give the size as a share of the width, e.g. 0.25 * WIDTH, or sample the network at a finite width"
        raise DescriptionError("Dense", why, fix)
    weight, bias = layer.weight_std**2, layer.bias_std**2
    gain, shift = weight, bias
    if state.standard:
        gain, shift = state.fan_in("Dense"), 1.0 if as_float(layer.bias_std) > 0 else 0.0
    state.add(Affine(state.register, weight, bias, gain, shift))
    state.features = state.outputs(layer.features)
    state.gaussian, state.carried = True, False
