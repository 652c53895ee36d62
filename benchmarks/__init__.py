"""Programs that measure, and print the numbers of the documents: `python -m benchmarks.NAME`."""
