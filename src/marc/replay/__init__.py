"""Whole streams at once: every space, capacity, weight and order, without a loop over time."""
