"""A run: its open, its members, and what it works with."""
