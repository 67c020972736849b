"""Near the right edge: what a large but finite width adds, to first order in 1/width."""
