"""`python -m tidemark`: the command where no script is installed."""

from tidemark.cli.main import app

app(prog_name="tidemark")
