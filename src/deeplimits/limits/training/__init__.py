"""While a network trains at infinite width: lazy, with features that move, or deep and linear."""
