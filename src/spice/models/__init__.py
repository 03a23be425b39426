"""Networks, and encoders by name."""
