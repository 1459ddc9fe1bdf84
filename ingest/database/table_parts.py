"""Parts of tables that users want to read again: the rows of a table that meet a condition."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError, SourceError, in_one_line
from penstock.formats.change import ChangeBatch, SourceSchema
from penstock.formats.demand import ConditionLanguage, ConditionMisfit, DemandPolicy, NarrowedDemand
from penstock.ingest.connector_requests import TableName

log = logging.getLogger(__name__)

# Counts of rows, and of parts of tables, that were not read again.
UNREADABLE, MISFIT = "reread.condition_unreadable", "reread.condition_misfit"
REFUSALS, REFUSAL_LENGTH = 10, 400  # They are stored in the offsets.


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of a table that meet the condition `where`."""

    name: TableName
    where: str

    def __str__(self) -> str:
        return f"{'.'.join(self.name)} where {self.where}"

    def to_json(self) -> list[str]:
        return [*self.name, self.where]

    @classmethod
    def from_json(cls, value: Sequence[str]) -> TablePart:
        database, table, where = value
        return cls((database, table), where)


def parts_from(values: Iterable[Sequence[str]]) -> tuple[TablePart, ...]:
    """Return the parts that offsets contain."""
    return tuple(map(TablePart.from_json, values))


def parts_besides(parts: Iterable[TablePart], whole: Collection[TableName]) -> tuple[TablePart, ...]:
    """Return the parts, each once, without parts of tables that will be read as a whole."""
    return tuple(part for part in dict.fromkeys(parts) if part.name not in whole)


def unfinished_parts(offsets: Mapping[str, Any]) -> list[str]:
    """Return the parts that wait or are being read at these offsets of a database, as text."""
    waiting = parts_from(offsets.get("parts", ()))
    read = [
        TablePart((cursor["database"], cursor["table"]), cursor["where"])
        for cursor in offsets.get("cursors", ())
        if cursor.get("where")
    ]
    chunk = offsets.get("rest_part")
    return [str(part) for part in (*read, *([TablePart.from_json(chunk)] if chunk else []), *waiting)]


@dataclass(frozen=True, slots=True)
class PartRead:
    """The reading of a chunk: of all its rows, or with a condition `where` of the rows that meet it."""

    language: ConditionLanguage | None
    where: str

    def demand(self, policy: DemandPolicy | None) -> DemandPolicy | None:
        """Return the part of the table that both the chunk and `policy` need."""
        return NarrowedDemand(policy, self._language, self.where) if self.where else policy

    def rows(self, batches: Iterable[ChangeBatch], oddities: Counter[str]) -> Iterator[ChangeBatch]:
        """Yield the rows that meet the condition.

        If the table has lost a column of the condition, its rows are left out and reported: the chunk is a part of the
        checkpoint, and an error would come again with each attempt.
        """
        if not self.where:
            yield from batches
            return
        try:
            for batch in batches:
                met, unreadable = self._language.met(self.where, batch)
                if unreadable:
                    oddities[UNREADABLE] += unreadable
                if len(met):
                    yield met
        except ConditionMisfit as error:
            log.warning("event=part_not_read reason=%s note=the table was altered since the signal", in_one_line(error))
            oddities[MISFIT] += 1

    @property
    def _language(self) -> ConditionLanguage:
        if self.language is None:
            raise ConfigError(
                "a part of a table is to be read again by a condition, which needs a pipeline",
                condition=self.where,
                hint="start the pipeline with this checkpoint, or the query with a new one",
            )
        return self.language


def accepted_parts(
    parts: Iterable[TablePart], check: Callable[[TablePart], None]
) -> tuple[tuple[TablePart, ...], tuple[str, ...]]:
    """Return the parts that can be read, and why others cannot: a wrong condition must not stop the pipeline."""
    accepted, refused = [], []
    for part in parts:
        try:
            check(part)
        except (ConfigError, SourceError) as error:
            if isinstance(error, SourceError) and error.retryable:
                raise
            reason = in_one_line(error)
            log.warning("event=signal_refused table=%s where=%s reason=%s", ".".join(part.name), part.where, reason)
            refused.append(f"{part}: {reason}"[:REFUSAL_LENGTH])
        else:
            log.info("event=part_read_again table=%s where=%s", ".".join(part.name), part.where)
            accepted.append(part)
    return tuple(accepted), tuple(refused[:REFUSALS])


def check_key(schema: SourceSchema | None, part: TablePart) -> SourceSchema:
    """Return the schema of the table; ConfigError if it has no key, so that rows read again would be there twice."""
    if schema is None:
        raise ConfigError(
            "the table does not exist any more", table=".".join(part.name), hint="leave the table out of the signal"
        )
    if not schema.primary_keys:
        raise ConfigError(
            "the table has no primary key, so rows that are read again would be there twice",
            table=".".join(part.name),
            hint="penstock run FILE --reset TARGET_TABLE  empties the table and reads it again",
        )
    return schema
