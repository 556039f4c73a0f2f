"""The fingerprint of a pipeline: what its rows are made with, kept with the checkpoint."""

import json
from hashlib import sha256

from tidemark.model.output import DEAD_LETTERS_TOPIC, OUTPUT_TOPIC
from tidemark.model.upsert import Upsert
from tidemark.settings.format import FormatSettings, OnNewField, OnNoField
from tidemark.settings.output import OutputSettings
from tidemark.settings.pipeline import Pipeline


def fingerprint(pipeline: Pipeline) -> dict[str, str]:
    """Each setting that changes which records are read or what becomes of them, as text.

    Bounds, members and connections are left out: they change when and where, not what. So are the
    limits of dead letters and target.on_refused, which a person sets to get past a batch.
    """
    decode = pipeline.decode
    return {
        "kafka.topics": ", ".join(sorted(pipeline.kafka.topics)),
        **_of_format("decode", decode),
        "decode.metadata": ", ".join(sorted(map(str, decode.metadata))),
        **({"decode.envelope": str(decode.envelope)} if decode.envelope else {}),
        **({"decode.placeholder": decode.placeholder} if decode.placeholder else {}),
        **({"decode.source": ", ".join(map(str, decode.source))} if decode.source else {}),
        **(_of_format("decode.key", decode.key) if decode.key else {}),
        **(
            {"decode.key.envelope": str(decode.key.envelope)}
            if decode.key and decode.key.envelope
            else {}
        ),
        "transform": pipeline.transform or "none",
        **{
            f"{f'targets.{name}' if name else 'target'}.{field}": value
            for name, target in pipeline.all_targets.items()
            for field, value in {"mode": str(target.mode), **_of_upsert(target.upsert)}.items()
        },
        **of_sending(pipeline),
    }


def file_fingerprint(pipeline: Pipeline) -> str:
    """Of all that the file says: it changes with each setting, and not with comments."""
    said = pipeline.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    whole = json.dumps([said, fingerprint(pipeline)], sort_keys=True)
    return sha256(whole.encode()).hexdigest()[:32]


def of_sending(pipeline: Pipeline) -> dict[str, str]:
    """What of it says where rows and dead letters are sent, and how."""
    dead_letters = pipeline.dead_letters.topic
    return {
        **(_of_output(pipeline.output) if pipeline.output else {}),
        **({DEAD_LETTERS_TOPIC: dead_letters} if dead_letters else {}),
    }


def _of_output(output: OutputSettings) -> dict[str, str]:
    if output.topic is None:
        return {}
    return {
        OUTPUT_TOPIC: output.topic,
        "output.format": str(output.format),
        "output.target": output.target or "the only one",
        "output.key": ", ".join(output.key) or "none",
    }


def _of_format(section: str, part: FormatSettings) -> dict[str, str]:
    found = {
        "format": str(part.format),
        **{f"schema.{name}": kind for name, kind in part.declared.items()},
        **({"framing": str(part.framing)} if part.framing else {}),
        **({"on_new_field": "refuse"} if part.on_new_field is OnNewField.refuse else {}),
        **({"on_no_field": "row"} if part.on_no_field is OnNoField.row else {}),
        **{f"options.{name}": json.dumps(value) for name, value in part.options.items()},
    }
    if part.message:
        found["message"] = part.message
    if part.descriptor:
        found["descriptor"] = f"sha256 {sha256(part.descriptors).hexdigest()[:16]}"
    return {f"{section}.{name}": value for name, value in found.items()}


def _of_upsert(upsert: Upsert | None) -> dict[str, str]:
    if upsert is None:
        return {}
    return {
        "key": ", ".join(upsert.key),
        "order_by": upsert.order_by or "none",
        "deleted": upsert.deleted or "none",
    }
