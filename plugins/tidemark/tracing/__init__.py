"""Traces of runs, for OpenTelemetry.

Doors: step, traced.

Without OTEL_* in the environment it imports no library and costs nothing.
"""
