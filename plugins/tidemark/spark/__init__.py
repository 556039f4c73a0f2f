"""Reader, writer and executors of a batch."""
