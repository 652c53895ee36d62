"""The paper's own arithmetic: docs/results/paper-arithmetic.md."""
