"""What the paper leaves open: groups as people want them."""
