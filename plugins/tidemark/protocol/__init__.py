"""The steps: plan, publish, mirror, close, reset, settle. No library, no I/O."""
