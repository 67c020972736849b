"""The diagonal: width and depth to infinity together, at a fixed ratio."""
