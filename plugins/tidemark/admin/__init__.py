"""What a person or a task starts beside a run's members: closes, resets, replays, repairs.

Doors: announce, dead_letters, drop, errors, held, importing, mirror, moment, replay,
replay_report, reset, run, withhold.

Without `apply` it changes nothing, but for a mirror; what a person changes leaves an audit row.
"""
