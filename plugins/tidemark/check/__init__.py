"""What is looked at before a run: the first records.

Doors: errors, first_records, inert.

It changes nothing and prints nothing, and knows not where connections come from.
"""
