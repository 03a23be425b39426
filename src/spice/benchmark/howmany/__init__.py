"""`spice bench howmany`: compares ways to choose the number of groups."""
