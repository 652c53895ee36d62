"""The lab: docs/results/lab.md and the sheet of its pictures."""
