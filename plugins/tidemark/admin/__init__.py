"""What a person or a task starts beside a run's members: closes, resets, replays, repairs.

Doors: dead_letters, held, importing, mirror, naming, replay, replay_report, reset, run, withhold.

Without `apply` it changes nothing, but for a mirror; what a person changes leaves an audit row.
"""
