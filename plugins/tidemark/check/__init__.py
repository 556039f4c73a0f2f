"""Check: everything that a run needs, looked at before it is needed; and the first records.

Doors: check, errors, findings, first_records.

It changes nothing and prints nothing, and knows not where connections come from.
"""
