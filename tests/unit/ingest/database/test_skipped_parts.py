"""Which errors leave out a part of a batch after which all tables are read again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost, DamagedData
from penstock.ingest.database.skipped_parts import SKIPS, unless_skipped
from penstock.ingest.decoded_source import DecodedChunk


def failing(error: SourceError) -> Iterator[DecodedChunk]:
    raise error
    yield


def test_a_part_that_stays_damaged_is_left_out_before_all_tables_are_read_again() -> None:
    """Otherwise the request to read them would never be carried out."""
    for error in (DamagedData("a checksum does not match"), SourceError("an event is unknown")):
        assert list(unless_skipped(failing(error), {SKIPS: True})) == []
        with pytest.raises(SourceError):
            list(unless_skipped(failing(error), {}))


def test_a_part_whose_server_is_away_is_not_left_out() -> None:
    with pytest.raises(ConnectionLost):
        list(unless_skipped(failing(ConnectionLost("no answer", retryable=True)), {SKIPS: True}))
