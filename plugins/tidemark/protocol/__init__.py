"""The steps: open, plan, contribute, publish, mirror, close, reset, rewind, replay.

Doors: changes, close, errors, mirror, open, output, plan, ports, publish, replay, reset,
rewind_plan, settle, withhold.

It knows no library and does no I/O: what it needs from outside stands in ports.py.
"""
