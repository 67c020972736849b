"""Mathematics without networks."""
