"""Write docs/configuration.md from the code: `python -m scripts.docs.configuration --write`.

Keys, types, defaults and meanings are those of the pydantic types in tidemark.settings, the rest
comes from the constants that the code itself uses. Without --write the page goes to stdout.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml
from scripts.docs import configuration_facts
from scripts.docs.markdown_pieces import table

from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import Strict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

This page is written from the code. Change the code, then run
`.venv/bin/python -m scripts.docs.configuration --write`.

One YAML file describes one pipeline. Beside it is a DAG file of a few lines:
[dags/flights.yaml](../dags/flights.yaml) and [dags/flights.py](../dags/flights.py) are the worked
example. Unknown keys are refused. All faults are reported at once, with file, line and key, without
the network. The smallest file:

```yaml
region: clicks
kafka:
  connection: tidemark_kafka
  topics: [clicks]
decode:
  schema:
    user: string
    at: timestamp
target:
  connection: tidemark_warehouse
  table: public.clicks
```
"""


def page() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        "## The file\n",
        *_sections(),
        *configuration_facts.parts(),
    ]
    return "\n".join(parts)


def _sections() -> Iterator[str]:
    schema = Pipeline.model_json_schema(by_alias=True)
    models = schema["$defs"]
    for kind in _models(Strict):
        _describe(kind, schema if kind is Pipeline else models.get(kind.__name__))
    yield _keys(schema, models, "")
    for key, field in schema["properties"].items():
        if model := _model(field, models):
            yield from _section(key, model, models)


def _models(base: type[Strict]) -> Iterator[type[Strict]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _describe(model: type[Strict], schema: dict[str, Any] | None) -> None:
    """The docstring beneath a key becomes its meaning.

    Pydantic could find them itself, in each process that parses a DAG file: 0.1 s of CPU.
    """
    written = {name: text for kind in reversed(model.__mro__) for name, text in docstrings(kind)}
    for name, field in model.model_fields.items():
        if schema and name in written:
            schema["properties"][field.alias or name].setdefault("description", written[name])


def docstrings(kind: type) -> Iterator[tuple[str, str]]:
    """Each key that the class itself declares, and what is written beneath it."""
    if not issubclass(kind, Strict):
        return
    [node] = ast.parse(dedent(inspect.getsource(kind))).body
    for key, after in pairwise(node.body if isinstance(node, ast.ClassDef) else ()):
        match key, after:
            case (
                ast.AnnAssign(target=ast.Name(name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)


def _section(path: str, model: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {path}\n\n{model['description']}\n"
    yield _keys(model, models, f"{path}.")
    for key, field in model["properties"].items():
        if nested := _model(field, models):
            yield from _section(f"{path}.{key}", nested, models)


def _keys(model: Mapping[str, Any], models: Mapping[str, Any], section: str) -> str:
    required = model.get("required", [])
    rows = []
    for key, field in model["properties"].items():
        nested = _model(field, models)
        default = "required" if key in required else _default(field, nested)
        meaning = field.get("description") or (nested or {}).get("description", "")
        anchor = f"{section}{key}".replace(".", "")
        type_ = f"section [{section}{key}](#{anchor})" if nested else _type(field, models)
        rows.append((f"`{key}`", type_, default, meaning))
    return table(("key", "type", "default", "meaning"), rows)


def _model(field: Mapping[str, Any], models: Mapping[str, Any]) -> Mapping[str, Any] | None:
    branches = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    found = models.get(branches[0].get("$ref", "").rpartition("/")[2]) if branches else None
    return found if found and found["type"] == "object" else None


def _default(field: Mapping[str, Any], nested: object) -> str:
    if nested and "default" in field and field["default"] is None:
        return "none"
    if nested:
        return "as below"
    value = field.get("default")
    return "none" if value is None or value == [] else f"`{_yaml(value)}`"


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()


def _type(field: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        kinds = [kind for kind in field["anyOf"] if kind.get("type") != "null"]
        return " or ".join(_type(kind, models) for kind in kinds)
    if "$ref" in field:
        return _named(models[field["$ref"].rpartition("/")[2]], models)
    if "const" in field:
        return f"`{field['const']}`"
    return _plain(field, models)


def _named(model: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    if "enum" in model:
        return ", ".join(f"`{value}`" for value in model["enum"])
    [(name, field)] = model["properties"].items()
    return f"`{{{name}: …}}`, {_type(field, models)}"


def _plain(field: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    match field["type"]:
        case "integer":
            return "whole number above 0" if "exclusiveMinimum" in field else "whole number"
        case "number":
            return f"number from {field['minimum']} to {field['maximum']}"
        case "boolean":
            return "true or false"
        case "array":
            return f"list of {_type(field['items'], models)}"
        case "object" if "patternProperties" in field:
            return "name: a section as [target](#target)"
        case "object":
            typed = "type" in field["additionalProperties"]
            return "field: [type](#types-of-fields)" if typed else "keys with values"
        case _ if field.get("format") == "date-time":
            return "time with a zone"
        case _:
            return f"text like `{field['pattern']}`" if "pattern" in field else "text"


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page())
    else:
        sys.stdout.write(page())
