"""Training at infinite depth of residual networks whose blocks add a mean: the mean ODE."""
