"""The conformance suite of any layer with a kernel: prediction beside sampled networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeplimits.architecture.compose import depends_on_depth
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.question import shorten
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError
from deeplimits.finite import sample
from deeplimits.limits.kernel.ask import kernel
from deeplimits.testing import structure
from deeplimits.testing.agreement import agree, bound, extrapolated, matrix, tangent
from deeplimits.testing.limit import INPUTS
from deeplimits.testing.record import Log, Report


def check_layer(
    layer: Layer,
    X: Any = None,
    width: int = 64,
    depth: int = 2,
    networks: int = 400,
    seed: int = 0,
    chance: float = 1e-4,
) -> Report:
    """Check the NNGP kernel and the NTK of a layer against sampled networks of widths n and 2n.

    Args:
        layer: put into Dense() >> layer >> Dense(1); or a network that depends on DEPTH.
        X: inputs, shape (k, d); three by default.
        width: n. The deviation of order 1/n is taken out by comparing n and 2n.
        depth: that of a network.
        networks: how many at each width.
        seed: of all networks.
        chance: largest chance that a right layer fails.

    Raises:
        CheckFailed: a kernel does not agree; says by how many standard errors.
        DeepLimitsError: the layer has no kernel or no module.

    Source: definition.

    Example:
        >>> import deeplimits as dl
        >>> len(check_layer(dl.act.Erf(), networks=100).checks)
        4
    """
    if not isinstance(layer, Layer):
        raise DescriptionError("check_layer", f"{layer!r} is not a layer", "give a layer such as dl.act.Relu()")
    whole("check_layer", "networks", networks, minimum=20)
    log = Log("check_layer", shorten(layer), chance)
    structure.description(layer, log)
    net = layer if depends_on_depth(layer) else Dense() >> layer >> Dense(features=1)
    X = INPUTS if X is None else X
    predicted = kernel(net, X, depth=depth)
    found = [
        sample(net, X, width=n, depth=depth, networks=networks, seed=seed + n, get=("nngp", "ntk"))
        for n in (width, 2 * width)
    ]
    count = len(X) * (len(X) + 1) // 2
    limit = bound(chance, 2 * count)
    fix = "compare the rule of the kernel with the module"
    for part, gap, value in (("NNGP", matrix, predicted.nngp), ("NTK", tangent, predicted.ntk)):
        gaps = extrapolated(*(gap(each, np.asarray(value)) for each in found))
        agree(part, gaps, f"sampled {part} less the kernel's", fix, limit, log)
    return log.report()
