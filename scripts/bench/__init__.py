"""What measures: each bench, and what one would write instead of Tidemark, beside it."""
