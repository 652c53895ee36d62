"""The weight without labels: docs/results/auto-weight.md."""
