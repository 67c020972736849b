"""What two sizes of a model tell: what grows, what ends residual branches, how large initial values are."""
