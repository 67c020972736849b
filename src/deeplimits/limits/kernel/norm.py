"""The kernels of layers that normalise over features."""

from __future__ import annotations

from deeplimits.architecture.norm import LayerNorm, RMSNorm
from deeplimits.errors import DescriptionError
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.tape import Normalise


@kernel.rule(RMSNorm, source="yang-2019-tensor-programs (norms concentrate)", valid="any input of non-zero norm")
def rms_norm(layer: RMSNorm, state: Lowering) -> None:
    """K' = K / sqrt((q + eps)(q' + eps)), Theta' likewise: the norm of wide features is deterministic."""
    state.add(Normalise(state.register, layer.epsilon))


@kernel.rule(
    LayerNorm,
    source="yang-2019-tensor-programs (norms concentrate)",
    valid="Gaussian input, whose mean over features is zero",
)
def layer_norm(layer: LayerNorm, state: Lowering) -> None:
    """As RMSNorm, since Gaussian features of zero mean have a vanishing mean over features."""
    if not state.gaussian:
        why = "its input is not Gaussian, so its mean over features is not zero and the kernel does not determine it"
        raise DescriptionError("LayerNorm", why, "put a Dense layer before it, or use RMSNorm")
    state.add(Normalise(state.register, layer.epsilon))
