"""Estimators of scikit-learn whose kernels are those of networks of infinite width."""
