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
    """Return the name of a query whose checkpoint has no finished batch, empty if the folder has an owner.

    That may be this query: Spark asks for the initial offsets again when it repeats the first batch: its end in the
    checkpoint has the name. A query that ended before its first batch leaves the folder without an owner.
    """
    check_writable(state)
    folder, file = _OWNER
    return uuid.uuid4().hex if state.below(folder).read(file) is None else ""


def check_begins(state: StateFolder, start: Offsets) -> None:
    """Raise ConfigError if the first batch of a query is planned, and the folder has had an owner before."""
    if start.get(QUERY) == "":
        raise ConfigError(
            "the folder belongs to a query with another checkpoint", option="state", folder=state.location, hint=_ONE
        )


def claim(state: StateFolder, offsets: Offsets) -> None:
    """Give the folder to the query of these offsets, which its checkpoint has. ConfigError if it belongs to another.

    Queries of older versions have no name.
    """
    folder, file = _OWNER
    if not state.below(folder).create(file, str(offsets.get(QUERY, "")).encode()):
        raise ConfigError(
            "another query with another checkpoint uses the folder", option="state", folder=state.location, hint=_ONE
        )
