"""Widening a model while it trains."""
