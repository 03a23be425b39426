"""How well the number of groups is found, beside other criteria: `spice bench howmany`."""
