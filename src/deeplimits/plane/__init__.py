"""Prediction and measurement side by side on the (width, depth) plane, as plain records."""
