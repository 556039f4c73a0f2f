"""Values: what the others speak of. No library, no I/O."""
