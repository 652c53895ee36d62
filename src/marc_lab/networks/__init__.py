"""The networks of the lab in torch: where they are trained, and where a method learns in them."""
