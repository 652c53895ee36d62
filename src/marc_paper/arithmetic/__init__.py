"""What the paper prints, recomputed from what it prints."""
