"""ANALYZE: the statistics of a table.

They are its rows and bytes, and per column distinct values, minimum, maximum, nulls and lengths.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.commit.attempt import Retries, commit_snapshot
from penstock.table.commit.changes import CommitChanges
from penstock.table.commit.identity import Identity
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import Executor, OwnProcess
from penstock.table.operations.row_copies import SplitsUnit
from penstock.table.read.scan import Scan
from penstock.table.read.time_travel import ReadPoint
from penstock.table.values.buffers import Words
from penstock.table.values.fingerprints import fingerprints
from penstock.table.values.internal import internal_values
from penstock.table.values.names import no_column
from penstock.table.values.types import AtomicType, Field

# Distinct values are counted exactly up to this number, and estimated (HyperLogLog) beyond: 2^14 registers keep the
# error below one percent.
_EXACT = 1 << 16
_REGISTER_BITS = 14
_TEXTS = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
# Types whose minimum and maximum Java can parse from text. It cannot compare bytes, and has another text form for
# timestamps.
_WITH_ENDS = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "CHAR", "VARCHAR"}
)


def analyze(
    store: TableStore, columns: Sequence[str] | None = None, executor: Executor | None = None
) -> Snapshot | None:
    """Read the table and commit an ANALYZE snapshot with statistics of `columns` (None: all).

    Rows do not change. Returns None for a table without a snapshot. A later commit under another schema drops the
    statistics. After a crash half way, a statistics file remains for orphan removal. Keeps a batch in memory, and 512
    kB of fingerprints per column.
    """
    latest = store.snapshots.latest()
    if latest is None:
        return None
    schema = store.schemas.get(latest.schema_id)
    scan = Scan.of(store, columns=columns, point=ReadPoint(latest.id), falls_back=False)
    unknown = [name for name in columns or () if name not in schema.names]
    if unknown:
        raise no_column(unknown, schema.names, table=store.name)
    wanted = [field for field in schema.fields if columns is None or field.name in columns]
    count, tallies = 0, [Tally(field) for field in wanted]
    # The plan has the options of the read; each split is a unit, whose tallies are added here.
    scan = scan.at_one_snapshot()
    units = [SplitsUnit((split,)) for split in scan.plan().splits]
    for rows, parts in (executor or OwnProcess()).run(SplitTallies(scan, tuple(wanted)), units):
        count += rows
        for tally, part in zip(tallies, parts, strict=True):
            tally.merge(part)
    found = {
        "snapshotId": latest.id,
        "schemaId": latest.schema_id,
        "mergedRecordCount": count,
        "mergedRecordSize": sum(entry.file.size for entry in live_entries(store, latest)),
        "colStats": {tally.of.name: tally.to_json(count) for tally in tallies},
    }
    name = f"stat-{store.ambient.new_uuid()}-0"
    # Formatted like Java's files.
    text = json.dumps(found, indent=2, separators=(",", " : "), ensure_ascii=False)
    store.storage.write(store.paths.statistics(name), text.encode())
    changes = CommitChanges(CommitKind.ANALYZE, statistics=name)
    identity = Identity(store.new_commit_user(), BATCH_IDENTIFIER)
    # Nothing has to be checked: the statistics name the snapshot that they describe.
    return commit_snapshot(store, identity, Retries.of(store.schema().options), lambda newest, first: changes)


@dataclass(frozen=True, slots=True)
class SplitTallies:
    """Collects the statistics of columns in splits."""

    scan: Scan
    fields: tuple[Field, ...]

    def __call__(self, unit: SplitsUnit) -> tuple[int, list[Tally]]:
        """Return the number of rows, and the statistics of each column."""
        count, tallies = 0, [Tally(field) for field in self.fields]
        for batch in (batch for split in unit.splits for batch in self.scan.read(split)):
            count += batch.num_rows
            for tally in tallies:
                tally.add(batch.column(tally.of.name))
        return count, tallies


class _Distinct:
    """The number of distinct values of one column, exact at first and then estimated."""

    def __init__(self) -> None:
        self._exact: Words | None = np.empty(0, np.uint64)
        self._ranks = np.zeros(1 << _REGISTER_BITS, np.uint8)

    def add(self, hashes: Words) -> None:
        if self._exact is not None:
            self._exact = np.union1d(self._exact, hashes)
            if len(self._exact) <= _EXACT:
                return
            hashes, self._exact = self._exact, None
        self._estimate(hashes)

    def merge(self, other: _Distinct) -> None:
        """Add the values that another process counted."""
        if other._exact is not None:
            self.add(other._exact)
            return
        if self._exact is not None:
            hashes, self._exact = self._exact, None
            self._estimate(hashes)
        np.maximum(self._ranks, other._ranks, out=self._ranks)

    def _estimate(self, hashes: Words) -> None:
        registers = (hashes >> np.uint64(64 - _REGISTER_BITS)).astype(np.int64)
        rest = hashes & np.uint64((1 << 50) - 1)
        # Doubles below 2^53 are exact, so the exponent is the position of the highest bit.
        ranks = (51 - np.frexp(rest.astype(np.float64))[1]).astype(np.uint8)
        np.maximum.at(self._ranks, registers, ranks)

    def count(self) -> int:
        if self._exact is not None:
            return len(self._exact)
        size = len(self._ranks)
        # The estimator of HyperLogLog, with its correction for small numbers, where empty registers are the better
        # measure.
        estimate = 0.7213 / (1 + 1.079 / size) * size * size / np.sum(2.0 ** -self._ranks.astype(np.float64))
        empty = int(np.count_nonzero(self._ranks == 0))
        if estimate <= 2.5 * size and empty:
            estimate = size * np.log(size / empty)
        return round(float(estimate))


@dataclass(slots=True)
class Tally:
    """The statistics of one column, collected batch by batch."""

    of: Field
    _nulls: int = 0
    _length: int = 0
    _longest: int = 0
    _low: object = None
    _high: object = None
    _distinct: _Distinct = field(default_factory=_Distinct)

    def add(self, column: pa.Array) -> None:
        self._nulls += column.null_count
        values = column.drop_null()
        if not isinstance(self.of.type, AtomicType) or self.of.type.root == "VARIANT" or not len(values):
            return
        # Half of a fingerprint is a hash of 64 bits, which both ways of counting need.
        self._distinct.add(fingerprints([values], [self.of.type]).high)
        if self.of.type.root in _TEXTS:
            lengths = pc.binary_length(values)
            self._length += pc.sum(lengths).as_py()
            self._longest = max(self._longest, pc.max(lengths).as_py())
        if self.of.type.root in _WITH_ENDS:
            ends = pc.min_max(values)
            low, high = internal_values(pa.array([ends["min"], ends["max"]], values.type), self.of.type)
            self._low = low if self._low is None else min(self._low, low)  # type: ignore[call-overload]
            self._high = high if self._high is None else max(self._high, high)  # type: ignore[call-overload]

    def merge(self, other: Tally) -> None:
        """Add the statistics of other rows of the column."""
        self._nulls += other._nulls
        self._length += other._length
        self._longest = max(self._longest, other._longest)
        self._distinct.merge(other._distinct)
        if other._low is not None:
            self._low = other._low if self._low is None else min(self._low, other._low)  # type: ignore[call-overload]
            self._high = other._high if self._high is None else max(self._high, other._high)  # type: ignore[call-overload]

    def to_json(self, rows: int) -> dict[str, object]:
        """Return the statistics in the form of Paimon's statistics file; `rows` is the number of rows of the table."""
        content: dict[str, object] = {"colId": self.of.id}
        atomic = isinstance(self.of.type, AtomicType) and self.of.type.root != "VARIANT"
        if atomic:
            content["distinctCount"] = self._distinct.count()
        if self._low is not None:
            content |= {"min": _text(self._low), "max": _text(self._high)}
        content["nullCount"] = self._nulls
        if isinstance(self.of.type, AtomicType) and self.of.type.root in _TEXTS and rows > self._nulls:
            content |= {"avgLen": -(-self._length // (rows - self._nulls)), "maxLen": self._longest}
        return content


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
