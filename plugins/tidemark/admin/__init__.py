"""What a person or a task starts beside a run's members: closes, resets, replays, repairs.

Doors: dead_letters, held, importing, mirror, naming, replay, replay_report, reset, run, withhold.

Without `apply` it changes nothing, and what it changes leaves an audit row.
"""
