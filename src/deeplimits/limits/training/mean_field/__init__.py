"""Training at infinite width with features that move: dynamical mean-field theory in discrete time."""
