"""Which retrieval space: its geometry, and the choice of one without labels."""
