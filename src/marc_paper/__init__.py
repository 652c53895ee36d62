"""The paper: what it prints, and how a study of the same protocol is held against it."""
