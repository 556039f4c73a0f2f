"""Traces of runs, for OpenTelemetry.

Doors: traced.

Without OTEL_* in the environment it imports no library and costs nothing.
"""
