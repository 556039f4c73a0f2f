"""The fingerprint of a pipeline: what its rows are made with, kept with the checkpoint."""

import json
from hashlib import sha256

from tidemark.model.upsert import Upsert
from tidemark.settings.decode import DecodeSettings
from tidemark.settings.pipeline import Pipeline


def fingerprint(pipeline: Pipeline) -> dict[str, str]:
    """Each setting that changes which records are read or what becomes of them, as text.

    Bounds, members and connections are left out: they change when and where, not what. So are the
    limits of dead letters and target.on_refused, which a person sets to get past a batch.
    """
    decode = pipeline.decode
    return {
        "kafka.topics": ", ".join(sorted(pipeline.kafka.topics)),
        "decode.format": str(decode.format),
        "decode.metadata": ", ".join(sorted(map(str, decode.metadata))),
        **{f"decode.schema.{name}": kind for name, kind in decode.fields.items()},
        **({"decode.framing": str(decode.framing)} if decode.framing else {}),
        **({"decode.envelope": str(decode.envelope)} if decode.envelope else {}),
        **_of_descriptor(decode),
        **{f"decode.options.{name}": json.dumps(value) for name, value in decode.options.items()},
        "transform": pipeline.transform or "none",
        **{
            f"{f'targets.{name}' if name else 'target'}.{field}": value
            for name, target in pipeline.all_targets.items()
            for field, value in {"mode": str(target.mode), **_of_upsert(target.upsert)}.items()
        },
    }


def _of_descriptor(decode: DecodeSettings) -> dict[str, str]:
    if decode.message is None:
        return {}
    digest = sha256(decode.descriptors).hexdigest()
    return {"decode.message": decode.message, "decode.descriptor": f"sha256 {digest[:16]}"}


def _of_upsert(upsert: Upsert | None) -> dict[str, str]:
    if upsert is None:
        return {}
    return {
        "key": ", ".join(upsert.key),
        "order_by": upsert.order_by or "none",
        "deleted": upsert.deleted or "none",
    }
