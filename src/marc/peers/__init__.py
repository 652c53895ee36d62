"""Methods of others, from the same features; `marc.methods` lists them by name."""
