"""The tables of docs/configuration.md, from the types and constants that the code itself uses.

Keys, their types, defaults and meanings are those of the pydantic types in tidemark.settings.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import griffe
import yaml
from scripts.docs.markdown_pieces import assigned, listed, spelled, table

from tidemark import settings
from tidemark.decode import registry
from tidemark.kafka import admin, config
from tidemark.model import membership
from tidemark.postgres import parameters, session, transaction
from tidemark.runs import _watch, retire
from tidemark.settings import connections, fields
from tidemark.settings.decode import Metadata
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import CONNECTION, Strict
from tidemark.spark import _postgres as task_sessions
from tidemark.spark import cluster
from tidemark.spark import session as spark_session
from tidemark.spark.records import row_schema
from tidemark.staging import refused, tables

POSTGRES = parameters.postgres_parameters(connections.Connection("x", "p", host="h", schema="d"))


def keys() -> str:
    """The keys of the top level, then each section with its own."""
    schema = Pipeline.model_json_schema(by_alias=True)
    models = schema["$defs"]
    for kind in _models(Strict):
        _describe(kind, schema if kind is Pipeline else models.get(kind.__name__))
    return "\n".join([_keys(schema, models, ""), *_sections(schema, models, "")])


def _models(base: type[Strict]) -> Iterator[type[Strict]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _describe(model: type[Strict], schema: dict[str, Any] | None) -> None:
    """The docstring beneath a key becomes its meaning.

    Pydantic could find them itself, in each process that parses a DAG file: 0.1 s of CPU.
    """
    module = model.__module__.removeprefix(f"{settings.__name__}.")
    source = _sources()[module][model.__name__].all_members
    for name, field in model.model_fields.items():
        if schema and (docstring := source[name].docstring):
            schema["properties"][field.alias or name].setdefault("description", docstring.value)


@cache
def _sources() -> griffe.Module:
    found = griffe.load(settings.__name__)
    assert isinstance(found, griffe.Module)
    return found


def _sections(model: Mapping[str, Any], models: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, field in model["properties"].items():
        if nested := _model(field, models):
            yield f"### {prefix}{key}\n\n{nested['description']}\n"
            yield _keys(nested, models, f"{prefix}{key}.", model if prefix else None)
            yield from _sections(nested, models, f"{prefix}{key}.")


def _keys(
    model: Mapping[str, Any],
    models: Mapping[str, Any],
    prefix: str,
    around: Mapping[str, Any] | None = None,
) -> str:
    """The table of a section; keys that are as in the section around it are named beneath."""
    rows = _rows(model, models, prefix)
    known = _rows(around, models, prefix) if around else []
    same = [row[0] for row in rows if row in known]
    own = table(("key", "type", "default", "meaning"), [row for row in rows if row not in known])
    outer = prefix.rstrip(".").rpartition(".")[0]
    return f"{own}\nAs in [{outer}](#{outer}): {', '.join(same)}.\n" if same else own


def _rows(
    model: Mapping[str, Any], models: Mapping[str, Any], prefix: str
) -> list[tuple[str, str, str, str]]:
    rows = []
    for key, field in model["properties"].items():
        nested = _model(field, models)
        default = "required" if key in model.get("required", ()) else _default(field, nested)
        meaning = field.get("description") or (nested or {}).get("description", "")
        anchor = f"{prefix}{key}".replace(".", "")
        type_ = f"section [{prefix}{key}](#{anchor})" if nested else _type(field, models)
        rows.append((f"`{key}`", type_, default, meaning))
    return rows


def _model(field: Mapping[str, Any], models: Mapping[str, Any]) -> Mapping[str, Any] | None:
    branches = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    found = models.get(branches[0].get("$ref", "").rpartition("/")[2]) if branches else None
    return found if found and found["type"] == "object" else None


def _default(field: Mapping[str, Any], nested: object) -> str:
    value = field.get("default")
    if nested and (value is not None or "default" not in field):
        return "as below"
    if value is None or value == []:
        return "none"
    spelled_out = yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n")
    return f"`{spelled_out.strip()}`"


def _type(field: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    match field:
        case {"anyOf": kinds}:
            return " or ".join(_type(one, models) for one in kinds if one.get("type") != "null")
        case {"$ref": name}:
            return _type(models[name.rpartition("/")[2]], models)
        case {"properties": parts}:
            [(name, part)] = parts.items()
            return f"`{{{name}: …}}`, {_type(part, models)}"
        case {"type": "array", "items": items}:
            return f"list of {_type(items, models)}"
    return _plain(field)


def _plain(field: Mapping[str, Any]) -> str:
    match field:
        case {"enum": values}:
            return listed(values)
        case {"const": value}:
            return f"`{value}`"
        case {"pattern": pattern} if pattern == CONNECTION:
            return "id of a connection"
        case {"pattern": pattern}:
            return f"text like `{pattern}`"
        case {"type": "number"}:
            return f"number from {field['minimum']} to {field['maximum']}"
        case {"type": "object", **more}:
            if "patternProperties" in more:
                return "name: a section as [target](#target)"
            typed = "type" in more["additionalProperties"]
            return "field: [type](#types-of-fields)" if typed else "keys with values"
    above = " above 0" if "exclusiveMinimum" in field else ""
    names = {
        "integer": f"whole number{above}",
        "boolean": "true or false",
        "date-time": "time with a zone",
    }
    return names.get(field.get("format", field["type"]), "text")


def columns() -> str:
    """What a transform is given besides the declared fields."""
    names = {f"kafka_{name}": name for name in Metadata}
    _, *given = row_schema(fields.arrow_schema({"f": "int"}), tuple(Metadata))
    rows = (
        (
            f"`{column.name}`",
            f"`{column.type}`",
            f"with `metadata: [{names[column.name]}]`" if column.name in names else "always",
        )
        for column in given
    )
    return table(("column", "Arrow type", "when"), rows)


def kafka() -> str:
    """The keys that Tidemark sets, the ones that it begins with, and those that it takes."""
    member = config.member_settings(membership.Membership())

    def shown(settings: Mapping[str, object], key: str) -> str:
        return f"`{spelled(settings[key])}`" if key in settings else "–"

    rows = (
        (f"`{key}`", shown(member, key), shown(config.READER_SETTINGS, key))
        for key in sorted(config.OVERRIDDEN)
    )
    defaults = {k: v for k, v in config.READER_DEFAULTS.items() if k != "group.id"}
    others = _settings(
        {
            "readers begin with; a connection may set them otherwise": assigned(defaults),
            "members begin with": assigned(config.MEMBER_DEFAULTS),
            "of the others these are taken": listed(sorted(config.TAKEN)),
        }
    )
    return f"{table(('key', 'group member (driver)', 'reader (task)'), rows)}\n{others}"


def postgres() -> str:
    """What is taken of a connection, and what its sessions set."""
    fixed = {key: POSTGRES[key] for key in POSTGRES if key not in ("host", "dbname")}
    needed = {key: " or ".join(values) for key, values in session.NEEDED.items()}
    return _settings(
        {
            "taken of `extra`, keys of libpq": listed(parameters.TAKEN),
            "where the connection says nothing": assigned(fixed),
            "each session, whatever server, database and role have": assigned(session.SETTINGS),
            "sessions of Spark's tasks, instead": assigned(task_sessions.TASK_TIMEOUTS),
            "where it does not hold, a session is refused": assigned(needed),
        }
    )


def schema_registry() -> str:
    """What is taken of a connection."""
    return _settings(
        {
            "taken of `extra`": listed(registry.TAKEN),
            "where the connection says nothing": assigned(registry.DEFAULTS),
        }
    )


def spark() -> str:
    """What a driver sets."""
    fixed = spark_session.FIXED
    defaults = {key: one for key, one in spark_session.DEFAULTS.items() if key not in fixed}
    return _settings(
        {
            "where you set nothing": assigned(
                {k: v for k, v in defaults.items() if k not in fixed}
            ),
            "for every master but local, too": assigned(cluster.SECURE),
            "always": assigned(fixed),
        }
    )


def _settings(rows: Mapping[str, str]) -> str:
    return table(("when", "settings"), rows.items())


def timeouts() -> str:
    """How long what may take, in seconds."""
    lock, statement, idle = (ms / 1000 for ms in transaction.TIMEOUTS_MS.values())
    longer = transaction.timeouts_of("rewind")["statement_timeout"] / 1000
    tidying = transaction.timeouts_of("prune")["lock_timeout"] / 1000
    idle_for, every, probes = (
        int(POSTGRES[f"keepalives_{name}"]) for name in ("idle", "interval", "count")
    )
    task = task_sessions.TASK_TIMEOUTS
    return f"""\
| what | how long |
| --- | --- |
| `lock_timeout` of a ledger transaction | {lock:g} s |
| `statement_timeout` of a ledger transaction | {statement:g} s |
| the same of a rewind, a drop and a migration | {longer:g} s |
| `idle_in_transaction_session_timeout`: a stopped holder of the region lock goes | {idle:g} s |
| connecting to Postgres | {POSTGRES["connect_timeout"]} s |
| until a silent Postgres is noticed | {idle_for + every * probes} s |
| a task's statement: one block of rows | `{task["statement_timeout"]}` |
| a task's session waits for a lock | `{task["lock_timeout"]}` |
| a task waits for its source or its transform with rows staged and not committed \
| `{task["idle_in_transaction_session_timeout"]}` |
| dropping old staging tables waits for a lock | {tables.DROP_WAIT_MS / 1000:g} s |
| close prunes old checkpoints; the next close continues | {retire.TIDYING_SECONDS:g} s |
| a step of that waits for a lock, at most | {tidying:g} s |
| the search in one batch for rows that the target refuses | {refused.SEARCH_SECONDS:g} s |
| a question to Kafka | {admin.SECONDS} s |
| Kafka misses a killed driver | `kafka.session_timeout_seconds` |
| a driver looks whether it is fenced, every | {_watch.WATCH_SECONDS:g} s |
| a read without progress fails, and a batch that nobody works on | `no_progress_seconds` |
"""


PARTS = {
    "keys": keys,
    "columns": columns,
    "kafka": kafka,
    "postgres": postgres,
    "registry": schema_registry,
    "spark": spark,
    "timeouts": timeouts,
}
"""By the name of its marks in the page."""
