"""Measures that only the paper asks for."""
