"""Training in which features stand still: the outputs of infinitely wide networks obey linear equations."""
