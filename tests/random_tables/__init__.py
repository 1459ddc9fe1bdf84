"""Random tables with columns of all types, and random conditions on them."""
