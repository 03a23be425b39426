"""The three stages of the paper (features, heads, joint training), and what comes before and after them."""
