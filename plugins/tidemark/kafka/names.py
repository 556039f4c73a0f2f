"""What a region's members are called in Kafka: written by the driver, read by whoever describes."""


def client_id_of(region: str, number: int | str) -> str:
    """The client id of the member with this number of the ledger."""
    return f"tidemark-{region}-{number}"


def number_in(client_id: str, region: str) -> int | None:
    """The ledger's number in a member's client id; None where it is no member of the region."""
    number = client_id.removeprefix(client_id_of(region, ""))
    is_ours = number != client_id and number.isascii() and number.isdecimal()
    return int(number) if is_ours else None


def static_name(group_id: str, slot: int | str) -> str:
    """The name under which the member of a slot (from 1) returns where membership is static."""
    return f"{group_id}-{slot}"


def is_static_name(instance_id: str | None, group_id: str) -> bool:
    """Whether it is a name of the group's own members."""
    return (instance_id or "").startswith(static_name(group_id, ""))
