"""What a pipeline must leave behind, in plain Python: each message applied to dicts, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.pipeline_stories.columns import value_of
from tests.pipeline_stories.conditions import CONDITIONS, EXPECTED, PROJECTIONS, masked
from tests.pipeline_stories.story import Change, Row, Story
from tests.pipeline_stories.tellers import TYPED

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
    rows: dict[Key, dict[str, Any]] = field(default_factory=dict)
    appended: list[Row] = field(default_factory=list)
    versions: dict[Key, list[Version]] = field(default_factory=dict)

    def fold(self, images: Sequence[Image]) -> None:
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
        sign = 1 if kind in {"+I", "+U"} else -1
        known = self.rows.setdefault(key, {**dict(zip(self.keys, key, strict=True)), **dict.fromkeys(self.sums)})
        for name in self.sums:
            if row.get(name) is not None:
                known[name] = (known[name] or 0) + sign * int(row[name] or 0)

    def _first_row(self, key: Key, kind: str, row: Row) -> None:
        if kind in {"+I", "+U"}:
            self.rows.setdefault(key, dict(row))

    def _partial_update(self, key: Key, kind: str, row: Row) -> None:
        if kind in {"+I", "+U"}:
            known = self.rows.setdefault(key, {})
            known |= {name: value for name, value in row.items() if value is not None or name not in known}

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
                {**self._shown(one.row, typed), "is_current": one.current, "_operation": one.operation}
                for versions in self.versions.values()
                for one in versions
            ]
        else:
            found = [self._shown(row, typed) for row in (*self.rows.values(), *self.appended)]
        return Counter(cells(row) for row in found)

    def _shown(self, row: Mapping[str, Any], typed: bool) -> dict[str, Any]:
        return {
            name: value_of(name, value) if typed and isinstance(value, str) else value for name, value in row.items()
        }


def cells(row: Mapping[str, Any]) -> Cells:
    return tuple(sorted((name, value) for name, value in row.items() if value is not None))


@dataclass
class Model:
    """All target tables of a story, and its dead letters by their positions."""

    story: Story
    sections: Mapping[str, Any]
    targets: dict[str, Target] = field(default_factory=dict)
    letters: dict[str, Change] = field(default_factory=dict)

    @classmethod
    def of(cls, story: Story) -> Model:
        return cls(story, story.sections)

    def take(self, change: Change, position: str) -> None:
        """Apply one message."""
        if "tombstone" in change:
            return
        if "poison" in change or not self._apply(change):
            self._refuse(change, position)

    def _refuse(self, change: Change, position: str) -> None:
        if self.sections["errors"]["bad-record"] == "dead-letter":
            self.letters[position] = change

    def replay(self) -> None:
        """Apply the dead letters again, in the order of their positions."""
        for position in sorted(self.letters, key=lambda one: (one.partition("@")[0], int(one.rpartition("@")[2]))):
            change = self.letters[position]
            if "poison" not in change and self._apply(change):
                del self.letters[position]

    def _apply(self, change: Change) -> bool:
        """Return whether the message is one that its table takes."""
        table = change["table"]
        if change.get("bad"):
            return False
        images = list(self._transformed(table, change))
        if any(kind in {"+I", "+U"} and self._fails(table, row, "dead-letter") for kind, row in images):
            return False
        target = self._target(table)
        target.fold(self._without_dropped(table, images))
        return True

    def _rule(self, table: str) -> Mapping[str, Any]:
        found = (one for one in self.sections.get("transform", ()) if one["source-table"].endswith(f".{table}"))
        return next(found, {})

    def _target(self, table: str) -> Target:
        if table not in self.targets:
            rule = self._rule(table)
            sink = self.sections.get("sink", {})
            options = {**sink.get("table-options", {}), **rule.get("table-options", {})}
            keys = rule.get("primary-keys") or self.story.keys[table]
            engine = options.get("merge-engine", "deduplicate")
            sums = [key.split(".")[1] for key in options if key.endswith("aggregate-function")]
            self.targets[table] = Target(keys, sink.get("deletes", "hard"), engine, sums)
        return self.targets[table]

    def _transformed(self, table: str, change: Change) -> Iterator[Image]:
        """Yield the images of a change after the transform of its table."""
        rule, keys = self._rule(table), self._target(table).keys
        passes = CONDITIONS[rule["filter"]] if "filter" in rule else lambda row: True
        before, after = change["before"], change["after"]
        old, new = (None if row is None else self._projected(rule, row) for row in (before, after))
        was, now = old is not None and passes(before), new is not None and passes(after)
        # Of a row whose delete has only the key nobody knows whether it passed.
        was = was or (after is None and all(before[name] is None for name in before.keys() - {*keys}))
        if was and now and [old.get(name) for name in keys] == [new.get(name) for name in keys]:  # type: ignore[union-attr]
            yield from (("-U", old), ("+U", new))  # type: ignore[misc]
            return
        if was:
            yield "-D", old  # type: ignore[misc]
        if now:
            yield "+I", new  # type: ignore[misc]

    @staticmethod
    def _projected(rule: Mapping[str, Any], row: Row) -> Row:
        computed = PROJECTIONS.get(rule.get("projection", ""), {})
        shown = {**row, **{name: cell(row) for name, cell in computed.items()}}
        return shown | {name: masked(mask, shown[name]) for name, mask in rule.get("mask", {}).items() if name in shown}

    def _fails(self, table: str, row: Row, action: str) -> bool:
        for rule in self.sections.get("expect", ()):
            if rule["action"] == "warn" or not rule["source-table"].endswith(f".{table}"):
                continue
            if not EXPECTED[rule["condition"]](row):
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
