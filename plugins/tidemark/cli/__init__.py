"""The command line: one table of commands in main.py, one file for each.

Doors: main, output, project.

It prints and asks; what a command does is done by the rooms below.
"""
