"""What powers of width and depth do to a network that trains: classes, and exponents measured."""
