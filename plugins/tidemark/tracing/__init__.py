"""Traces of runs, for OpenTelemetry."""
