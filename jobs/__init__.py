"""What runs inside Spark: the entry point of a member and the users' transforms."""
