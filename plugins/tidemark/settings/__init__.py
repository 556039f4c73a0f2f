"""What a person writes: the pipeline file and connections."""
