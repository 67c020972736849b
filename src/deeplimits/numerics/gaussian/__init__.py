"""Expectations E[phi(u) phi(v)] of correlated Gaussians: closed forms, and Hermite series with an error estimate."""
