"""Partitions that have had their time, by what their values say or by when rows last came (table-format 13.8)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.errors import ConfigError
from penstock.table.commit.committer import Committer
from penstock.table.layout import Layout
from penstock.table.meta.live import live_entries
from penstock.table.meta.store import TableStore
from penstock.table.schema.options import Options
from penstock.table.values.partition_text import value_text

_LETTERS = {"y": "%Y", "u": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S", "S": "%f"}
_PARTS = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z']+")
MOST_AT_ONCE = 10_000
_DEFAULT_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d")


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """The wall-clock times that partitions stand for: `pattern` makes one text of their values, `forms` read it."""

    pattern: str | None
    forms: tuple[str, ...]

    @classmethod
    def of(cls, values: Mapping[str, str]) -> PartitionTimes:
        options = Options(values)
        formatter = options.text("partition.timestamp-formatter", None)
        forms = _DEFAULT_FORMS if formatter is None else (_form(formatter),)
        return cls(options.text("partition.timestamp-pattern", None), forms)

    def of_partition(self, layout: Layout, partition: bytes) -> int | None:
        """In milliseconds; None for values that tell no time."""
        texts = self.texts(layout, partition)
        if self.pattern is None:
            text = next(iter(texts.values()))
        else:
            text = re.sub(r"\$(\w+)", lambda match: str(texts.get(match[1], match[0])), self.pattern)
        for form in self.forms if text is not None else ():
            try:
                return int(datetime.strptime(str(text), form).replace(tzinfo=UTC).timestamp() * 1000)
            except ValueError:
                continue
        return None

    @staticmethod
    def texts(layout: Layout, partition: bytes) -> dict[str, str | None]:
        values = zip(layout.partition_fields, layout.partition_values(partition), strict=True)
        return {field.name: value_text(value, field.type) for field, value in values}


@dataclass(frozen=True, slots=True)
class PartitionExpiry:
    """`millis` is how long a partition stays, counted from the time of its values or from its last rows."""

    millis: int
    by_values: bool
    times: PartitionTimes
    most: int
    at_once: int | None  # in one commit

    @classmethod
    def of(cls, values: Mapping[str, str]) -> PartitionExpiry | None:
        """By the options of a table; None when they let no partition expire."""
        options = Options(values)
        millis = options.duration("partition.expiration-time", None)
        if millis is None:
            return None
        strategy = options.choice("partition.expiration-strategy", ("values-time", "update-time"), "values-time")
        most = options.integer("partition.expiration-max-num", 100)
        batch = options.integer("partition.expiration-batch-size", None)
        return cls(millis, strategy == "values-time", PartitionTimes.of(values), most, batch)


def expire_partitions(store: TableStore, options: Mapping[str, str] | None = None) -> list[dict[str, object]]:
    """Drop the partitions that are older than `partition.expiration-time`, the oldest first and a bounded number of
    them, as one OVERWRITE (or several, by `partition.expiration-batch-size`); gives their values as text.

    A partition whose values tell no time stays. One that rows came to meanwhile is dropped by its values all the same,
    by its update time not: CommitConflict then.
    """
    expiry = PartitionExpiry.of({**store.schema().options, **(options or {})})
    if expiry is None:
        raise ConfigError(
            "how long do partitions stay?", table=store.name, hint="set partition.expiration-time, or --expiration-time"
        )
    layout, base = Layout.of(store.schema()), store.snapshots.latest()
    if not layout.schema.partition_keys:
        raise ConfigError("the table has no partitions", table=store.name)
    if base is None:
        return []
    updated: dict[bytes, int] = {}
    for entry in live_entries(store, base):
        updated[entry.partition] = max(updated.get(entry.partition, 0), entry.file.creation_millis or 0)
    times = {one: expiry.times.of_partition(layout, one) if expiry.by_values else at for one, at in updated.items()}
    limit = store.ambient.local_millis() - expiry.millis
    old = sorted((at, partition) for partition, at in times.items() if at is not None and at < limit)[: expiry.most]
    committer = Committer(store, store.ambient.new_uuid())
    for start in range(0, len(old), expiry.at_once or MOST_AT_ONCE):
        doomed = {partition for _, partition in old[start : start + (expiry.at_once or MOST_AT_ONCE)]}
        committer.overwrite((), doomed.__contains__, base=None if expiry.by_values else base)
    return [dict(PartitionTimes.texts(layout, partition)) for _, partition in old]


def _form(formatter: str) -> str:
    """Java's pattern in Python's letters."""
    out = []
    for match in _PARTS.finditer(formatter):
        if match[1] is None:
            out.append((match[0] if match[2] is None else match[2].replace("''", "'") or "'").replace("%", "%%"))
        elif match[1] in _LETTERS:
            out.append(_LETTERS[match[1]])
        else:
            raise ConfigError(
                f"{match[0]!r} of the timestamp formatter is not known", hint="use y, M, d, H, m, s, S and literals"
            )
    return "".join(out)
