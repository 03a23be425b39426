"""The paper's three stages: features, heads, joint training; and the groups that they leave open."""
