"""The request of a replay, and why it would be refused before anything is made."""

from tidemark.errors import (
    InvalidSettings,
    Refused,
    SchemaMismatch,
    Superseded,
    TransformFailed,
)
from tidemark.ledger import naming
from tidemark.model.state import NEVER_MIRRORED, Mirrored, RegionState
from tidemark.operations.fit import known_schemas, would_fit
from tidemark.operations.region import Connections, Region
from tidemark.protocol.replay import ReplayRequest
from tidemark.settings.fingerprint import fingerprint


def replay_request(
    region: Region,
    state: RegionState,
    who: str,
    why: str,
    mirrored: Mirrored = NEVER_MIRRORED,
    gone: frozenset[str] = frozenset(),
) -> ReplayRequest:
    """A replay into the region's targets, of the region as it was looked at."""
    return ReplayRequest(
        who=who,
        why=why,
        epoch=state.epoch,
        mirrored=mirrored,
        gone=gone,
        targets=region.pipeline.tables,
        fingerprint=fingerprint(region.pipeline),
    )


def check(region: Region, state: RegionState, request: ReplayRequest) -> None:
    """Refuse before anything is made or written; the replay's own transaction decides.

    Raises:
        Superseded, Refused: see `naming.at_rest` and `ReplayRequest.check`.
    """
    with region.ledger.settling(region.name, "look") as tx:
        naming.at_rest(tx.cursor, state)
        request.check(tx)


def refusal(region: Region, connections: Connections) -> str | None:
    """Why a replay would be refused now; None if nothing is known that would."""
    state = region.state()
    try:
        check(region, state, replay_request(region, state, "", ""))
        schemas = known_schemas(region.pipeline, connections)
        if schemas is not None:
            would_fit(region.pipeline, region.ledger.engine, schemas)
    except (Refused, Superseded, InvalidSettings, SchemaMismatch, TransformFailed) as error:
        return str(error)
    return None
