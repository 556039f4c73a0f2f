"""Numbers of things, as sentences have them."""


def amount(count: int, one: str) -> str:
    """`1 batch`, `2,000 batches`: `one` is the word for one of them."""
    if count == 1:
        return f"1 {one}"
    return f"{count:,} {one}{'es' if one.endswith('ch') else 's'}"
