"""What stays on disk: files written whole, and folders of runs and sweeps."""
