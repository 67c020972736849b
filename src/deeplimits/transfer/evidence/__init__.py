"""What shows that settings carry over: audits, coordinate checks, learning-rate sweeps."""
