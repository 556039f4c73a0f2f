"""A schema as its writer registered it, with those that it refers to."""

from dataclasses import dataclass

from tidemark.decode.outcome import Reason, Refusal


@dataclass(frozen=True, slots=True)
class Written:
    """A schema as it was registered, and those that it refers to, which come first."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: "tuple[Written, ...]" = ()
    name: str = ""
    """By which another schema refers to it: of Protobuf the path of an import."""

    def refuse_other_than(self, kind: str) -> None:
        """Refuse it, unless it is of this kind.

        Raises:
            Refusal: it is of another.
        """
        if self.kind != kind:
            raise Refusal(Reason.OTHER_SCHEMA, f"the schema is of the kind {self.kind}")


def flattened(written: Written) -> list[Written]:
    """What a schema refers to, each once and first, then the schema itself.

    Each is looked at once, however many paths lead to it.
    """
    found: dict[tuple[str, str, str], Written] = {}
    seen: set[int] = set()
    todo = [(written, False)]
    while todo:
        one, is_behind = todo.pop()
        if is_behind:
            found.setdefault((one.kind, one.text, one.name), one)
        elif id(one) not in seen:
            seen.add(id(one))
            todo.append((one, True))
            todo += [(other, False) for other in reversed(one.references)]
    return list(found.values())
