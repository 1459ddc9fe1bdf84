"""Random filters of a table, and the rows that a filter lets pass with and without a server that applies it too."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.formats.change import ChangeBatch
from penstock.formats.demand import DemandPolicy
from penstock.pipelines.mapping.table_rules import PipelineDemand, TableRules
from penstock.schema_evolution.transforms import Transform
from penstock.schema_evolution.types.mapping import TypeMapping

_SIGNS = ("=", "<>", "!=", "<", "<=", ">", ">=")
Read = Callable[[DemandPolicy | None], Iterable[ChangeBatch]]


@dataclass(frozen=True)
class RandomFilters:
    """Filters over columns with constants to compare them with. `flags` are boolean columns, `others` whole tests."""

    constants: Mapping[str, Sequence[str]]
    flags: Sequence[str] = ()
    others: Sequence[str] = ()

    def one(self, choice: random.Random, depth: int = 3) -> str:
        if depth and choice.random() < 0.6:
            word = choice.choice(["and", "or", "not"])
            if word == "not":
                return f"not ({self.one(choice, depth - 1)})"
            return f"({self.one(choice, depth - 1)}) {word} ({self.one(choice, depth - 1)})"
        column = choice.choice(list(self.constants))
        some = self.constants[column]
        sign, value = choice.choice(_SIGNS), choice.choice(some)
        kinds = [
            f"{column} {sign} {value}",
            f"{value} {sign} {column}",
            f"{column} is {choice.choice(['', 'not '])}null",
            f"{column} {choice.choice(['', 'not '])}in ({value}, {choice.choice(some)})",
            f"{column} between {value} and {choice.choice(some)}",
            *self.others,
        ]
        if self.flags:
            flag = choice.choice(list(self.flags))
            kinds += [flag, f"{flag} = {choice.choice(['true', 'false'])}"]
        return choice.choice(kinds)


def compare_reads(filters: RandomFilters, read: Read, *, count: int, seed: int, zone: str = "UTC") -> tuple[int, int]:
    """Assert that each filter yields the same rows both ways; return how many rows were read in each."""
    choice, asked, all_read = random.Random(seed), 0, 0
    everything = list(read(None))
    for _ in range(count):
        text = filters.one(choice)
        projection = choice.choice(["*", None, f"id, {choice.choice(list(filters.constants))} as v"])
        transform = Transform.of("*.*", projection, text)
        policy = PipelineDemand(TableRules((transform,)), TypeMapping())
        some = list(read(policy))
        assert _passing(transform, some, zone) == _passing(transform, everything, zone), text
        asked += sum(map(len, some))
        all_read += sum(map(len, everything))
    return asked, all_read


def _passing(transform: Transform, batches: Iterable[ChangeBatch], zone: str) -> list[str]:
    found = []
    for batch in batches:
        taken, bad = transform.applied(batch, TypeMapping(), 0, zone)
        assert not bad
        # Python has no dates before the year 1 and after 9999.
        columns = [
            column.cast(pa.int32()) if pa.types.is_date(column.type) else column for column in taken.rows.columns
        ]
        rows = pa.RecordBatch.from_arrays(columns, names=taken.rows.schema.names)
        found += [repr(sorted(row.items())) for row in rows.to_pylist()]
    return sorted(found)
