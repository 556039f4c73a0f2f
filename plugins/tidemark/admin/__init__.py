"""What a person or a task starts on a region: a run's close, resets, replays, repairs."""
