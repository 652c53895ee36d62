"""The web around the memories: routes, bodies, keys, problems, metrics and the live page."""
