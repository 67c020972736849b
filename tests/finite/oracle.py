"""Oracles that share nothing with the conditioned sampler: all parameters drawn, Jacobians by torch.func."""

import numpy as np
import torch
from torch.func import functional_call, jacrev, vmap

from deeplimits.finite import build


def whole(net, X, width, depth, networks, seed):
    """Gram matrices and NTKs (ntk parametrization, one output) of networks drawn whole, batched with vmap."""
    module = build(net, width, depth, 0, features_in=X.shape[1], dtype=torch.float64)
    draw = torch.Generator().manual_seed(seed)
    drawn = {
        n: torch.randn(networks, *p.shape, generator=draw, dtype=torch.float64) for n, p in module.named_parameters()
    }
    inputs = torch.from_numpy(X)

    def features(own):
        return functional_call(module[:-1], {n: p for n, p in own.items() if not n.startswith("readout")}, (inputs,))

    def tangent(own):
        jacobian = jacrev(lambda p: functional_call(module, p, (inputs,))[:, 0])(own)
        return sum(j.flatten(1) @ j.flatten(1).mT for j in jacobian.values())

    held = vmap(features, chunk_size=500)(drawn)
    return (held @ held.mT / held.shape[-1]).numpy(), vmap(tangent, chunk_size=500)(drawn).numpy()


def jacobian_kernel(module, X1, X2):
    """Full empirical NTK (N1, N2, O, O) from whole Jacobians."""
    own = {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}

    def jacobian(X):
        found = jacrev(lambda p: functional_call(module, p, (X,)).reshape(len(X), -1))(own)
        return torch.cat([j.flatten(2) for j in found.values()], 2)

    return torch.einsum("iap,jbp->ijab", jacobian(X1), jacobian(X2))


def scores(one, other):
    """Difference of the means over the first axis, in standard errors."""
    error = np.sqrt(one.var(0, ddof=1) / len(one) + other.var(0, ddof=1) / len(other))
    difference = one.mean(0) - other.mean(0)
    return np.where(np.abs(difference) < 1e-12, 0.0, difference / np.maximum(error, 1e-300))
