"""One memory of a server: what it is made of, what happened to it, and what the labels say."""
