"""What is made from the code: pages, tables and pictures of the docs, and what tests compare."""
