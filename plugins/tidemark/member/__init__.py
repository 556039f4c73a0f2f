"""One driver: the loop of a member and what surrounds it."""
