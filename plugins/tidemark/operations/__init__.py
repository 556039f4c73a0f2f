"""What a person or a task starts on a region, and what it reads."""
