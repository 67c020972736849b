"""Kernel machines without bias: where networks of infinite width end that are trained with decay to their start."""
