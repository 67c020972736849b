"""One file per paper's headline claim: predicted, measured, and a verdict by a stated test."""
