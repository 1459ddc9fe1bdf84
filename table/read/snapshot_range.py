"""The range of an incremental read: from its options to two snapshot ids, two times or two tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from penstock.errors import ConfigError
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from penstock.table.meta.tag_periods import TagPeriod
from penstock.table.options.scans import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_SCAN_MODE,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_TO_AUTO_TAG,
)
from penstock.table.options.table_options import TableOptions


class Ends(Enum):
    """The meaning of the start and the end of a range."""

    NAMES = auto()  # two tags or two snapshot ids, which only the table can tell apart
    IDS = auto()
    TIMES = auto()
    TAGS = auto()
    AUTOMATIC_TAG = auto()  # the end is a tag, and the start the automatic tag before it


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """The range (start, end] of an incremental read: snapshot ids, tags, or points in time."""

    start: str
    end: str
    mode: str
    ends: Ends = Ends.NAMES

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SnapshotRange | None:
        """Build from the read's options; None when they do not name a range."""
        read = TableOptions(options)
        mode = read[INCREMENTAL_BETWEEN_SCAN_MODE]
        for option, kind in ((INCREMENTAL_BETWEEN, Ends.NAMES), (INCREMENTAL_BETWEEN_TIMESTAMP, Ends.TIMES)):
            text = read[option]
            if text is not None:
                ends = [end.strip() for end in text.split(",")]
                if len(ends) != 2 or not all(ends):
                    raise ConfigError(
                        f"{text!r} is not a start and an end separated by a comma",
                        option=option.key,
                        hint="write it as 3,7",
                    )
                return cls(ends[0], ends[1], mode, kind)
        tag = read[INCREMENTAL_TO_AUTO_TAG]
        return None if tag is None else cls("", tag, mode, Ends.AUTOMATIC_TAG)

    def resolved(self, store: TableStore) -> SnapshotRange | None:
        """Return the range between two ids, times or tags. None if there is no automatic tag to begin or end with."""
        if self.ends is Ends.AUTOMATIC_TAG:
            start = _tag_before(store, self.end)
            return None if start is None else replace(self, start=start, ends=Ends.TAGS)
        if self.ends is not Ends.NAMES:
            return self
        # As in Java, tags are looked for first: their names may consist of digits.
        names = _tags(store).names()
        missing = [end for end in (self.start, self.end) if end not in names]
        if not missing:
            return replace(self, ends=Ends.TAGS)
        if self.start.isdecimal() and self.end.isdecimal():
            return replace(self, ends=Ends.IDS)
        unknown = next((end for end in missing if not end.isdecimal()), missing[0])
        raise ConfigError(
            f"{unknown!r} is neither a snapshot id nor a tag"
            if not unknown.isdecimal()
            else f"{unknown!r} is not a tag",
            table=store.name,
            tags=", ".join(names),
            hint="a range has two snapshot ids or two tags",
        )


def _tag_before(store: TableStore, end: str) -> str | None:
    """Return the automatic tag of the newest period before `end`'s period; None if one of the two tags is missing."""
    period = TagPeriod.of(store.schema().options)
    begin = period.begin(end)
    if begin is None:
        raise ConfigError(
            f"{end!r} is not the name of an automatic tag",
            table=store.name,
            option=INCREMENTAL_TO_AUTO_TAG.key,
            paimon_message=f"Specified tag '{end}' is not an auto-created tag.",
            hint=f"the options tag.creation-period and tag.period-formatter name tags like {period.name(0)!r}; "
            f"{INCREMENTAL_BETWEEN.key} reads the changes between any two tags",
        )
    names = _tags(store).names()
    begins = ((period.begin(name), name) for name in names)
    earlier = [(at, name) for at, name in begins if at is not None and at < begin]
    return max(earlier)[1] if earlier and end in names else None


def _tags(store: TableStore) -> TagFiles:
    return TagFiles(store.storage, store.paths.root, store.paths.branch)
