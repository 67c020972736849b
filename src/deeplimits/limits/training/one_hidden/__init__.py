"""One hidden layer under muP at infinite width: exact algorithms for linear networks, particles, and the pi-limit."""
