"""The plan of a compaction: which of its files are rewritten, and which are only upgraded to another level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.table.buckets.layout import keys_move
from penstock.table.compaction.changelog import ChangelogSpec
from penstock.table.compaction.policy import Pick
from penstock.table.compaction.record_expiry import RecordExpiry
from penstock.table.files.encoding import encoding_of
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.sorted_runs import FileRun, KeyedFile, Levels, Section, sections
from penstock.table.merge.spec import MergeSpec
from penstock.table.meta.data_file import DataFile
from penstock.table.options.changelogs import DELETION_VECTORS_ENABLED
from penstock.table.options.compaction import COMMIT_FORCE_COMPACT, COMPACTION_FORCE_REWRITE_ALL_FILES, LOOKUP_WAIT
from penstock.table.options.files import TARGET_FILE_SIZE
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema

MB = 1 << 20


@dataclass(frozen=True, slots=True)
class CompactionSpec:
    """The options of a table for compacting a bucket, except for the policy that picks files."""

    merge: MergeSpec
    changelog: ChangelogSpec
    vectors: bool  # deletion vectors: readers see one row per key on levels above 0
    target_size: int
    options: TableOptions
    expiry: RecordExpiry | None = None
    rewrites_all: bool = False  # files are never upgraded without a rewrite
    keys_move: bool = False  # a row may delete that of its key in another partition

    @classmethod
    def of(cls, schema: TableSchema, expiry: RecordExpiry | None = None) -> CompactionSpec:
        """Return the spec of a schema."""
        options = schema.typed
        return cls(
            merge=merge_spec(schema),
            changelog=ChangelogSpec.of(schema.typed),
            vectors=options[DELETION_VECTORS_ENABLED],
            target_size=options.get(TARGET_FILE_SIZE, 128 * MB),
            options=options,
            expiry=expiry,
            rewrites_all=options[COMPACTION_FORCE_REWRITE_ALL_FILES],
            keys_move=keys_move(schema),
        )

    def must_rewrite(self, file: DataFile) -> bool:
        """Return whether a file must be rewritten even if nothing overlaps it.

        It must be if some of its records are expired, or if the options demand that all files are rewritten.
        """
        return self.rewrites_all or (self.expiry is not None and self.expiry.concerns(file))

    @property
    def looks_up(self) -> bool:
        """Return whether compaction merges level-0 rows with the rows of upper levels by lookup."""
        return not self.full_changelog and self.merge.needs_upper_levels

    @property
    def shows_by_compaction(self) -> bool:
        """Return whether rows, or their changes, become visible only after they left level 0."""
        return self.looks_up or self.vectors

    @property
    def lags(self) -> bool:
        """Return whether commits precede the compaction that makes their rows visible.

        New files are then compacted after the commit that adds them.
        """
        options = self.options
        # The new row of a key that moves and the delete of the old one must become visible at the same time.
        waits = options[LOOKUP_WAIT] or self.keys_move
        return self.shows_by_compaction and not waits and not options[COMMIT_FORCE_COMPACT]

    @property
    def full_changelog(self) -> bool:
        """Return whether only full compactions produce the changelog."""
        return self.changelog.producer.by_full_compaction

    @property
    def small_size(self) -> int:
        """Return the size below which a file is rewritten with its neighbours."""
        # Java's bound: files that rolled at the target size may be smaller, and must not be rewritten each time.
        return self.target_size // 10 * 7


@dataclass(frozen=True, slots=True)
class Unit:
    """Neighbouring sections that are compacted together. Without `rewrite` their files are only upgraded.

    `compare`: each key is compared with its previous row, for the changelog, deletion vectors, or the first row.
    """

    sections: tuple[Section, ...]
    rewrite: bool
    compare: bool

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for section in self.sections for file in section.data_files)


def drops_deletes(spec: CompactionSpec, levels: Levels, pick: Pick) -> bool:
    """Return whether -D rows can be dropped: no older row of their keys is below, or deletion vectors hide it."""
    return pick.level != 0 and (pick.level >= levels.highest_occupied or spec.vectors)


def plan_units(spec: CompactionSpec, levels: Levels, pick: Pick) -> list[Unit]:
    """Return the units in key order. Files that stay unchanged on their level are in no unit."""
    return list(_Planning(spec, levels, pick).units())


class _Planning:
    """The division of picked files into units."""

    def __init__(self, spec: CompactionSpec, levels: Levels, pick: Pick) -> None:
        self._spec, self._pick = spec, pick
        self._to_top = pick.level == levels.max_level
        self._shown = levels.shown_level
        # Files that are already on the target level were picked because their rows must change.
        self._forced = all(file.level == pick.level for file in pick.files)

    def units(self) -> Iterator[Unit]:
        together: list[Section] = []
        for section in sections(self._pick.files, self._spec.merge.key_types()):
            if len(section.runs) > 1:
                together.append(section)
                continue
            # Units are in key order: a large file ends the group of small neighbours before it, because a group
            # with a gap would write files whose key ranges overlap the large one.
            for keyed in section.runs[0].files:
                if keyed.file.size < self._spec.small_size:
                    together.append(_alone(keyed))
                else:
                    yield from self._together(together)
                    together = []
                    yield from self._upgrade(_alone(keyed))
        yield from self._together(together)

    def _together(self, found: Sequence[Section]) -> Iterator[Unit]:
        if len(found) == 1 and len(found[0].runs) == 1:
            yield from self._upgrade(found[0])
        elif found:
            yield self._rewrite(tuple(found))

    def _rewrite(self, found: tuple[Section, ...]) -> Unit:
        spec = self._spec
        if spec.looks_up:
            has_level0 = any(0 in section.levels for section in found)
            return Unit(found, rewrite=True, compare=self._pick.level != 0 and has_level0)
        return Unit(found, rewrite=True, compare=spec.full_changelog and self._to_top)

    def _upgrade(self, section: Section) -> Iterator[Unit]:
        [file] = section.data_files
        unfit = self._spec.must_rewrite(file) or self._other_format(file)
        # A -D row deletes nothing on the top level, so that files with such rows are never moved there unread.
        # Old files lack the count; None is not 0 either, so such a file is rewritten, as in Java.
        if self._forced or unfit or (self._to_top and file.delete_row_count != 0):
            yield self._rewrite((section,))
        elif file.level != self._pick.level:
            yield self._rise(section, file)

    def _rise(self, section: Section, file: DataFile) -> Unit:
        spec = self._spec
        if not spec.looks_up:
            new = self._to_top and file.level != self._shown
            return Unit((section,), rewrite=False, compare=spec.full_changelog and new)
        if file.level != 0:
            return Unit((section,), rewrite=False, compare=False)
        # With deletion vectors all -D rows are dropped above level 0, which needs a rewrite.
        if spec.vectors and file.delete_row_count != 0:
            return Unit((section,), rewrite=True, compare=True)
        # Only rows of deduplicate are certain not to change when they are merged with older rows.
        rewrite = not (self._to_top or spec.merge.last_arrival_wins)
        return Unit((section,), rewrite=rewrite, compare=True)

    def _other_format(self, file: DataFile) -> bool:
        wanted = encoding_of(self._spec.options, self._pick.level).format
        return file.level != self._pick.level and file.format != wanted


def _alone(keyed: KeyedFile) -> Section:
    return Section((FileRun(keyed.file.level, (keyed,)),), in_order=True)
