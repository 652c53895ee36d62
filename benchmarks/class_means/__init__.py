"""Class means, part by part: docs/results/class-means.md."""
