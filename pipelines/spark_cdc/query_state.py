"""The folder in which a query keeps files of its source, and the query to which it belongs."""

from __future__ import annotations

import uuid

from penstock.errors import ConfigError
from penstock.ingest.source import Offsets
from penstock.storage.state_folder import StateFolder

QUERY = "query"  # among the offsets: the name that the query has given itself when it began
_OWNER = "owner", "name"  # the folder and the file that have it: the source reads all files of the state
_ONE = "a  state  is for one checkpoint: start this query with a new checkpoint and a new, empty  state"


def check_writable(state: StateFolder) -> None:
    """Raise ConfigError if files cannot be written to the folder."""
    try:
        state.probe()
    except OSError as error:
        raise ConfigError(
            f"files cannot be written to {state.location}",
            option="state",
            reason=error.strerror or str(error),
            hint="choose a folder that the driver may create and write to, such as one beside the checkpoint",
        ) from error


def begin(state: StateFolder) -> str:
    """Return the name of a query that has no checkpoint yet. ConfigError if the folder belongs to another query.

    A query that ended before its first batch leaves the folder without an owner, and may begin again.
    """
    check_writable(state)
    folder, file = _OWNER
    if state.below(folder).read(file) is not None:
        raise ConfigError(
            "the folder belongs to a query with another checkpoint", option="state", folder=state.location, hint=_ONE
        )
    return uuid.uuid4().hex


def claim(state: StateFolder, offsets: Offsets) -> None:
    """Give the folder to the query of these offsets, which its checkpoint has. ConfigError if it belongs to another.

    Queries of older versions have no name.
    """
    folder, file = _OWNER
    if not state.below(folder).create(file, str(offsets.get(QUERY, "")).encode()):
        raise ConfigError(
            "another query with another checkpoint uses the folder", option="state", folder=state.location, hint=_ONE
        )
