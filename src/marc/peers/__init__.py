"""Methods of others, from the same features; `marc.peers.registry` lists them by name."""
