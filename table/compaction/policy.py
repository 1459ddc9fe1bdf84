"""Choice of the files of a primary-key bucket to compact: Java's universal compaction, decision for decision."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from penstock.table.merge.sorted_runs import Levels
from penstock.table.meta.data_file import DataFile
from penstock.table.options.compaction import (
    COMPACTION_FORCE_UP_LEVEL_0,
    COMPACTION_INCREMENTAL_SIZE_THRESHOLD,
    COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT,
    COMPACTION_OFFPEAK_END_HOUR,
    COMPACTION_OFFPEAK_RATIO,
    COMPACTION_OFFPEAK_START_HOUR,
    COMPACTION_OPTIMIZATION_INTERVAL,
    COMPACTION_SIZE_RATIO,
    COMPACTION_TOTAL_SIZE_THRESHOLD,
    LOOKUP_COMPACT,
    LOOKUP_COMPACT_MAX_INTERVAL,
    NUM_LEVELS,
    NUM_SORTED_RUN_COMPACTION_TRIGGER,
    NUM_SORTED_RUN_STOP_TRIGGER,
)
from penstock.table.options.table_options import TableOptions


@dataclass(frozen=True, slots=True)
class SizedRun:
    """A sorted run for the policy: a file of level 0, or a whole level."""

    level: int
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Pick:
    """The files to compact, and their level afterwards."""

    files: tuple[DataFile, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Policy:
    """The compaction options of a primary-key table."""

    trigger: int = 5
    stop_trigger: int = 8
    num_levels: int = 6
    max_amplification: int = 200  # percent
    size_ratio: int = 1  # percent
    optimization_interval: int | None = None  # milliseconds
    total_size_threshold: int | None = None
    incremental_size_threshold: int | None = None
    up_level0: bool = False
    gentle_interval: int | None = None  # level 0 is compacted only at every n-th pick; None: at each

    @classmethod
    def of(cls, options: TableOptions, *, needs_lookup: bool = False, hour: int | None = None) -> Policy:
        """Return the policy that a table's options set.

        `needs_lookup`: the table's reads, changelog or deletion vectors require that every commit compacts level 0.
        `hour` is the hour of the day: during off-peak hours more is compacted, by `compaction.offpeak-ratio`.
        """
        trigger = options[NUM_SORTED_RUN_COMPACTION_TRIGGER]
        gentle = options[LOOKUP_COMPACT] == "GENTLE"
        interval = options.get(LOOKUP_COMPACT_MAX_INTERVAL, 2 * trigger)
        return cls(
            trigger=trigger,
            # Below the trigger, a writer would wait for a compaction that is not due yet.
            stop_trigger=max(options.get(NUM_SORTED_RUN_STOP_TRIGGER, trigger + 3), trigger),
            num_levels=options.get(NUM_LEVELS, trigger + 1),
            max_amplification=options[COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT],
            size_ratio=options[COMPACTION_SIZE_RATIO] + _off_peak_ratio(options, hour),
            optimization_interval=options[COMPACTION_OPTIMIZATION_INTERVAL],
            total_size_threshold=options[COMPACTION_TOTAL_SIZE_THRESHOLD],
            incremental_size_threshold=options[COMPACTION_INCREMENTAL_SIZE_THRESHOLD],
            up_level0=needs_lookup or options[COMPACTION_FORCE_UP_LEVEL_0],
            gentle_interval=interval if needs_lookup and gentle else None,
        )


def _off_peak_ratio(options: TableOptions, hour: int | None) -> int:
    start = options[COMPACTION_OFFPEAK_START_HOUR]
    end = options[COMPACTION_OFFPEAK_END_HOUR]
    if hour is None or start == end or start < 0 or end < 0:
        return 0
    # Off-peak hours such as 22 to 6 cross midnight.
    within = start <= hour < end if start < end else hour >= start or hour < end
    return options[COMPACTION_OFFPEAK_RATIO] if within else 0


def sized_runs(levels: Levels) -> list[SizedRun]:
    """Return the runs, newest first: each file of level 0, then each level that is not empty."""
    runs = [SizedRun(0, (file,)) for file in levels.level0]
    return runs + [SizedRun(level, files) for level, files in enumerate(levels.upper, 1) if files]


def pick(policy: Policy, levels: Levels, *, idle_millis: int | None = None, skipped: int = 0) -> Pick | None:
    """Return what to compact after a flush, or None if nothing is due.

    `idle_millis` is the time since the last full compaction (None: unknown, treated as never) and matters only with an
    optimization interval. `skipped` counts the calls since level 0 was compacted last (gentle lookups).
    """
    runs = sized_runs(levels)
    picked = _universal(policy, runs, levels.max_level, idle_millis)
    if picked is None and policy.up_level0 and _may_go_up(policy, skipped):
        picked = _level0_up(policy, runs, levels.max_level)
    return None if picked is None or _is_done(picked) else picked


def must_wait(policy: Policy, levels: Levels) -> bool:
    """Return whether a writer must let compaction catch up before it adds another run."""
    return levels.run_count > policy.stop_trigger


def pick_all(levels: Levels, dirty: Container[str] = ()) -> Pick | None:
    """Return a full compaction. If all files are on the top level already, only the files named in `dirty` are picked.

    `dirty` are files with deleted or expired rows.
    """
    files = levels.all_files
    if all(file.level == levels.max_level for file in files):
        files = tuple(file for file in files if file.name in dirty)
    return Pick(files, levels.max_level) if files else None


def _may_go_up(policy: Policy, skipped: int) -> bool:
    return policy.gentle_interval is None or skipped + 1 >= policy.gentle_interval


def _is_done(picked: Pick) -> bool:
    # A rewrite of one file to its own level would change nothing.
    return len(picked.files) == 1 and picked.files[0].level == picked.level


def _universal(policy: Policy, runs: Sequence[SizedRun], max_level: int, idle_millis: int | None) -> Pick | None:
    if not runs:
        return None
    if _optimization_is_due(policy, runs, max_level, idle_millis) or _amplification_is_high(policy, runs):
        return _of_runs(runs, max_level)
    if len(runs) >= policy.trigger:
        count = _absorbed(policy, runs, 1)
        if count > 1:
            return _unit(runs, max_level, count)
    if len(runs) > policy.trigger:
        return _unit(runs, max_level, _absorbed(policy, runs, len(runs) - policy.trigger + 1))
    return None


def _optimization_is_due(policy: Policy, runs: Sequence[SizedRun], max_level: int, idle_millis: int | None) -> bool:
    if len(runs) == 1:
        return False
    interval = policy.optimization_interval
    if interval is not None and (idle_millis is None or idle_millis > interval):
        return True
    total, most = policy.total_size_threshold, policy.incremental_size_threshold
    if total is not None and sum(run.size for run in runs) < total:
        return True
    return most is not None and sum(run.size for run in runs if run.level != max_level) > most


def _amplification_is_high(policy: Policy, runs: Sequence[SizedRun]) -> bool:
    if len(runs) < policy.trigger:
        return False
    *newer, oldest = runs
    # The oldest run is about the size of the table without duplicates; newer runs are the space amplification.
    return 100 * sum(run.size for run in newer) > policy.max_amplification * oldest.size


def _absorbed(policy: Policy, runs: Sequence[SizedRun], count: int) -> int:
    """Return how many runs to compact: the `count` newest, and each next run not much larger than all before it."""
    size = sum(run.size for run in runs[:count])
    # In floating point like Java, so that both choose the same runs at the boundary.
    while count < len(runs) and size * (100.0 + policy.size_ratio) / 100.0 >= runs[count].size:
        size += runs[count].size
        count += 1
    return count


def _level0_up(policy: Policy, runs: Sequence[SizedRun], max_level: int) -> Pick | None:
    count = sum(1 for run in runs if run.level == 0)
    return _unit(runs, max_level, _absorbed(policy, runs, count)) if count else None


def _unit(runs: Sequence[SizedRun], max_level: int, count: int) -> Pick:
    """Return the `count` newest runs. Their level is one less than the level of the next run.

    More runs are included if that level would be 0.
    """
    level = max_level if count == len(runs) else max(0, runs[count].level - 1)
    # A compaction never writes to level 0, where the files of a level may overlap.
    if level == 0:
        while count < len(runs):
            count += 1
            if runs[count - 1].level != 0:
                level = runs[count - 1].level
                break
    return _of_runs(runs[:count], max_level if count == len(runs) else level)


def _of_runs(runs: Sequence[SizedRun], level: int) -> Pick:
    return Pick(tuple(file for run in runs for file in run.files), level)
