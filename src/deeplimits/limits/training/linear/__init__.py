"""Linear networks while they train: their modes, the rule of their product, and their best learning rates."""
