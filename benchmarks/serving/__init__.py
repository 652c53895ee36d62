"""Serving: what a query costs when several wait."""
