"""What a pipeline must leave behind, in plain Python: each message applied to dicts, one after the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tests.pipeline_stories.columns import UNREADABLE, value_of
from tests.pipeline_stories.conditions import CONDITIONS, EXPECTED, PROJECTIONS, masked
from tests.pipeline_stories.dimensions import LOOKED_UP, Found, is_found, joined
from tests.pipeline_stories.story import Change, Row, Story
from tests.pipeline_stories.tellers import TYPED

ALL_CONDITIONS, ALL_EXPECTED = {**CONDITIONS, **LOOKED_UP}, {**EXPECTED, **LOOKED_UP}
Image = tuple[str, Row]
Key = tuple[str | None, ...]
Cells = tuple[tuple[str, Any], ...]  # the columns of a row that are not null
DATABASE = "ods"


@dataclass
class Version:
    """A version of a row in a history table."""

    row: Row
    operation: str
    current: bool = True


@dataclass
class Target:
    """The rows that a target table must have."""

    keys: Sequence[str]
    deletes: str = "hard"
    engine: str = "deduplicate"
    sums: Sequence[str] = ()
    partitions: Sequence[str] = ()
    rows: dict[Key, dict[str, Any]] = field(default_factory=dict)
    appended: list[Row] = field(default_factory=list)
    versions: dict[Key, list[Version]] = field(default_factory=dict)
    images: list[Image] = field(default_factory=list)  # all that were applied, in this order
    has_lost_rows: bool = False

    def lose_rows(self) -> None:
        self.rows, self.appended, self.versions, self.has_lost_rows = {}, [], {}, True

    def fold(self, images: Sequence[Image]) -> None:
        places = {tuple(row.get(name) for name in self.partitions) for _, row in images}
        # An update that moves its row to another partition is written as a delete and an insert.
        kinds = {"-U": "-D", "+U": "+I"} if len(places) > 1 else {}
        self.images += [(kinds.get(kind, kind), row) for kind, row in images]
        for kind, row in images:
            if not self.keys:
                self.appended += [row] if kind in {"+I", "+U"} else []
                continue
            key = tuple(row.get(name) for name in self.keys)
            if self.deletes == "history":
                self._begin_version(key, kind, row)
            else:
                getattr(self, f"_{self.engine.replace('-', '_')}")(key, kind, row)

    def _deduplicate(self, key: Key, kind: str, row: Row) -> None:
        if kind == "-D" and self.deletes == "soft":
            self.rows[key] = {**row, "_deleted": True}
        elif kind == "-D":
            self.rows.pop(key, None)
        elif kind != "-U":
            self.rows[key] = {**row, "_deleted": False} if self.deletes == "soft" else dict(row)

    def _aggregation(self, key: Key, kind: str, row: Row) -> None:
        adds = kind in {"+I", "+U"}
        if not adds and key not in self.rows:
            # Paimon shows no row for a single one, and the negative sum for several that are merged together.
            raise ValueError(f"the story takes {row} from a group without rows: compactions decide what is left of it")
        known = self.rows.setdefault(key, {**dict(zip(self.keys, key, strict=True)), **dict.fromkeys(self.sums)})
        for name in self.sums:
            if row.get(name) is not None:
                known[name] = (known[name] or 0) + (1 if adds else -1) * int(row[name] or 0)

    def _first_row(self, key: Key, kind: str, row: Row) -> None:
        if kind in {"+I", "+U"}:
            self.rows.setdefault(key, dict(row))

    def _partial_update(self, key: Key, kind: str, row: Row) -> None:
        if kind in {"+I", "+U"}:
            known = self.rows.setdefault(key, {})
            known |= {name: value for name, value in row.items() if value is not None or name not in known}
        if self.deletes == "soft" and kind == "-D":
            known = self.rows.setdefault(key, {})
            known |= {name: value for name, value in row.items() if value is not None or name not in known}
        if self.deletes == "soft" and kind != "-U":
            self.rows[key]["_deleted"] = kind == "-D"

    def _begin_version(self, key: Key, kind: str, row: Row) -> None:
        found = self.versions.setdefault(key, [])
        live = found[-1] if found and found[-1].current else None
        if kind == "-U":
            return
        if kind != "-D" and live is not None and cells(live.row) == cells(row):
            return
        if live is not None:
            live.current = False
        if kind != "-D":
            found.append(Version(row, kind))

    def expected(self, *, typed: bool) -> Counter[Cells]:
        """Return the rows as cells, with the values that the table has for them."""
        if self.deletes == "history":
            found = [
                {**self.shown(version.row, typed=typed), "is_current": version.current, "_operation": version.operation}
                for versions in self.versions.values()
                for version in versions
            ]
        else:
            found = [self.shown(row, typed=typed) for row in (*self.rows.values(), *self.appended)]
        return Counter(cells(row) for row in found)

    def shown(self, row: Mapping[str, Any], *, typed: bool) -> dict[str, Any]:
        return {
            name: value_of(name, value) if typed and isinstance(value, str) else value for name, value in row.items()
        }


def cells(row: Mapping[str, Any]) -> Cells:
    return tuple(sorted((name, value) for name, value in row.items() if value is not None))


@dataclass
class Model:
    """All target tables of a story, its dead letters by their positions, and the counts of its messages and rows."""

    story: Story
    sections: Mapping[str, Any]
    targets: dict[str, Target] = field(default_factory=dict)
    letters: dict[str, Change] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    found: Found = field(default_factory=dict)  # the dimension, as the message that is applied finds it
    stops: int = 0  # messages with rows for which a rule stops the pipeline

    @classmethod
    def of(cls, story: Story) -> Model:
        return cls(story, story.sections)

    def take(self, change: Change, position: str, found: Found = MappingProxyType({})) -> None:
        """Apply one message, which finds these rows in the dimension."""
        self.found = found
        self.counts["messages"] += 1
        if "tombstone" in change:
            return
        if "poison" in change or not self._apply(change):
            self.counts["bad"] += 1
            if self.sections["errors"]["bad-record"] == "dead-letter":
                self.letters[position] = change

    def replay(self, found: Found) -> None:
        """Apply the dead letters again, in the order of their positions. Batches do not count them again."""
        self.found = found
        counts = self.counts.copy()
        for position in sorted(
            self.letters, key=lambda letter: (letter.partition("@")[0], int(letter.rpartition("@")[2]))
        ):
            change = self.letters[position]
            if "poison" not in change and self._apply(change):
                del self.letters[position]
        self.counts = counts

    def _apply(self, change: Change) -> bool:
        """Return whether the message is one that its table takes."""
        table = change["table"]
        if change.get("bad") or self._is_unreadable(table, change):
            return False
        images = list(self._transformed(table, change))
        given = 2 if change["op"] == "U" else 1
        self.counts["left out"] += given - len(images)
        new = [row for kind, row in images if kind in {"+I", "+U"}]
        rules = [rule["condition"] for rule in self.sections.get("expect", ()) if _is_of(rule, table)]
        if any(row.get("n") == UNREADABLE for row in new) and any(map(_reads_number, rules)):
            return False
        if any(self._fails(table, row, "dead-letter") for row in new):
            return False
        images = self._without_dropped(table, images)
        self.stops += any(self._fails(table, row, "fail") for row in new)
        if any(row.get("n") == UNREADABLE for _, row in images):
            return False
        self.target(table).fold(images)
        return True

    def _is_unreadable(self, table: str, change: Change) -> bool:
        """Return whether an expression of the transform cannot read a value of a message."""
        rule = self.rule(table)
        reads = any(_reads_number(rule.get(name, "")) for name in ("filter", "projection"))
        sides = ("before",) if self._misses(rule, change["after"]) else ("before", "after")
        return reads and any(change[side] and change[side].get("n") == UNREADABLE for side in sides)

    def _misses(self, rule: Mapping[str, Any], row: Row | None) -> bool:
        """Return whether a lookup leaves out a new row, before any expression of the transform."""
        joins = (step["join"] for step in rule.get("lookup", ()))
        return row is not None and "inner" in joins and not is_found(row, self.found)

    def rule(self, table: str) -> Mapping[str, Any]:
        return next((section for section in self.sections.get("transform", ()) if _is_of(section, table)), {})

    def _route(self, table: str) -> Mapping[str, Any] | None:
        return next((section for section in self.sections.get("route", ()) if _is_of(section, table)), None)

    def target_name(self, table: str) -> str:
        route = self._route(table)
        return table if route is None else str(route["sink-table"]).partition(".")[2]

    def target(self, table: str) -> Target:
        name = self.target_name(table)
        if name not in self.targets:
            rule = self.rule(table)
            sink = self.sections.get("sink", {})
            options = {**sink.get("table-options", {}), **rule.get("table-options", {})}
            keys = rule.get("primary-keys") or self.story.keys[table]
            engine = options.get("merge-engine", "deduplicate")
            sums = [key.split(".")[1] for key in options if key.endswith("aggregate-function")]
            partitions = rule.get("partition-keys", ())
            deletes = (self._route(table) or {}).get("deletes") or sink.get("deletes", "hard")
            self.targets[name] = Target(keys, deletes, engine, sums, partitions)
        return self.targets[name]

    def _transformed(self, table: str, change: Change) -> Iterator[Image]:
        """Yield the images of a change after the transform of its table."""
        rule, keys = self.rule(table), self.target(table).keys
        passes = ALL_CONDITIONS[rule["filter"]] if "filter" in rule else lambda row: True
        before, after = (self._joined(rule, change[side]) for side in ("before", "after"))
        old, new = (None if row is None else self._projected(rule, row) for row in (before, after))
        misses = self._misses(rule, change["after"])
        was, now = old is not None and passes(before), new is not None and not misses and passes(after)
        if old is not None:
            # Nobody knows whether a row passed whose delete has only the key, or what the dimension had for it then.
            only_key = after is None and all(
                change["before"][name] is None for name in change["before"].keys() - {*keys}
            )
            was = was or only_key or rule.get("filter") in LOOKED_UP
        if was and now and [old.get(name) for name in keys] == [new.get(name) for name in keys]:  # type: ignore[union-attr]
            yield from (("-U", old), ("+U", new))  # type: ignore[misc]
            return
        if was:
            yield "-D", old  # type: ignore[misc]
        if now:
            yield "+I", new  # type: ignore[misc]

    def _joined(self, rule: Mapping[str, Any], row: Row | None) -> Row | None:
        return row if row is None or not rule.get("lookup") else joined(row, self.found)

    @staticmethod
    def _projected(rule: Mapping[str, Any], row: Row) -> Row:
        computed = PROJECTIONS.get(rule.get("projection", ""), {})
        shown = {**row, **{name: cell(row) for name, cell in computed.items()}}
        return shown | {name: masked(mask, shown[name]) for name, mask in rule.get("mask", {}).items() if name in shown}

    def _fails(self, table: str, row: Row, action: str) -> bool:
        for rule in self.sections.get("expect", ()):
            if rule["action"] == "warn" or not _is_of(rule, table):
                continue
            if not ALL_EXPECTED[rule["condition"]](row):
                # A row that an earlier rule drops is not checked by later ones.
                return bool(rule["action"] == action)
        return False

    def _without_dropped(self, table: str, images: Sequence[Image]) -> list[Image]:
        dropped = [kind in {"+I", "+U"} and self._fails(table, row, "drop") for kind, row in images]
        if [kind for kind, _ in images] == ["-U", "+U"] and dropped[1]:
            return []  # the table keeps the row as it was
        return [image for image, is_dropped in zip(images, dropped, strict=True) if not is_dropped]

    @property
    def typed(self) -> bool:
        return self.story.kind in TYPED


def _reads_number(expression: str) -> bool:
    return re.search(r"\bn\b", expression) is not None


def _is_of(section: Mapping[str, Any], table: str) -> bool:
    return str(section["source-table"]).endswith(f".{table}")
