"""Text of records and servers, as it may be shown or pasted."""


def inert(text: object) -> str:
    r"""The text without power over a terminal: what is not printable is escaped (`\x1b`)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
