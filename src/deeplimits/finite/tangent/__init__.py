"""Empirical neural tangent kernels: layer by layer where the layer's structure is known, by Jacobians elsewhere."""
