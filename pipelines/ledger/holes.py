"""Tables that lack rows which the checkpoint counts as read.

They are copied again if possible, otherwise the run is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import DecodeError
from penstock.ingest.connector_answers import TableCapture
from penstock.ingest.connector_requests import TableName
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.ledger.filled_tables import Difference, FilledTables, SourceName
from penstock.pipelines.ledger.lineage import LastBatch
from penstock.pipelines.ledger.parked_tables import ParkedTables
from penstock.pipelines.ledger.table_marks import REASONS
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.pipelines.mapping.table_mapping import TableMapping

log = logging.getLogger(__name__)

_SHOWN = 10
COPIES = (
    "--reset {table}  empties the table and copies its source tables again;  --accept-gap  continues with the table as"
    " it is, without the missing rows"
)
READS_ON = (
    "--checkpoint NEW --from earliest --accept-replay  reads again all that the source still has;  if all tables were"
    " rolled back together,  --checkpoint NEW --resume-from-tables  continues at their position, but not from files; "
    " --accept-gap  continues with the tables as they are, without the missing rows"
)


@dataclass(frozen=True, slots=True)
class IncompleteTables:
    """Tables that lack rows.

    Tables in `again` are emptied and copied again, and tables in `refused` stop the run. Tables in `passed` are not
    copied, because the user excluded the rows of newly added tables.
    """

    again: tuple[Difference, ...] = ()
    refused: tuple[Difference, ...] = ()
    passed: tuple[Difference, ...] = ()

    def check(self, filled: FilledTables, hint: str, *, accept: bool) -> None:
        """Raise CheckpointMismatch for the refused tables unless gaps are accepted; accepted gaps are recorded."""
        if self.refused and not accept:
            raise refusal(self.refused, hint)
        filled.accept(self.refused)
        for difference in self.refused:
            log.warning("event=gap_accepted table=%s reason=%s", difference.table, difference.reason)
        for difference in self.passed:
            log.warning("event=table_not_copied table=%s reason=%s", difference.table, difference.reason)

    def to_copy(self, left_out: Collection[SourceName] = ()) -> tuple[Difference, ...]:
        """Return the tables to empty and copy again. `left_out` are sources that no table can store in this run."""
        return tuple(difference for difference in self.again if not set(difference.sources) <= set(left_out))


def refusal(differences: Sequence[Difference], hint: str) -> CheckpointMismatch:
    reasons = {
        difference.table: difference.reason
        for difference in sorted(differences, key=lambda difference: difference.table)[:_SHOWN]
    }
    count = f"{len(differences)} table{'' if len(differences) == 1 else 's'}"
    lack = "lacks" if len(differences) == 1 else "lack"
    more = len(differences) - len(reasons)
    facts: Mapping[str, object] = reasons if not more else {**reasons, "and": f"{more} more"}
    return CheckpointMismatch(
        f"{count} of this pipeline {lack} rows that the checkpoint counts as read",
        hint=hint.replace("{table}", next(iter(reasons))),
        **facts,
    )


def check_kind(filled: FilledTables) -> None:
    """Raise CheckpointMismatch if a source of another type wrote the offsets, which mean nothing to this one."""
    if filled.recorded_kind and filled.recorded_kind != filled.kind:
        raise CheckpointMismatch(
            f"the checkpoint is of a pipeline whose source has the type {filled.recorded_kind}, and this one has the"
            f" type {filled.kind}",
            checkpoint=filled.checkpoint.location,
            hint="set another name for one of the two pipelines with  --name , in a file  pipeline: {name: ...}",
        )


def lacking_messages(shaping: TableMapping, filled: FilledTables, *, retries_parked: bool) -> IncompleteTables:
    """Return the tables that lack rows of a message source, which cannot be copied again."""
    parked = ParkedTables.of(filled.checkpoint).tables
    goes_to = where_sources_go(filled, shaping)
    replaced = _replaced(filled, goes_to, parked) if retries_parked else []
    # A parked table lacks batches that are recorded, and catches up with them.
    found = filled.differences({source: table for source, table in goes_to.items() if table not in parked})
    # A table that the pipeline never filled lacks no more rows: no message arrived since its gap was accepted.
    lacking = (
        difference
        for difference in found
        if difference.reason != REASONS["missing"] or difference.table in filled.marks
    )
    return IncompleteTables(refused=(*(found if filled.is_adopted else lacking), *replaced, *filled.lost()))


def _replaced(
    filled: FilledTables, goes_to: Mapping[SourceName, str | None], parked: Collection[str]
) -> list[Difference]:
    """Return the parked tables that also lack rows from before they were parked, which no missed batch has."""
    with_rows = {table for table in parked if (mark := filled.marks.get(table)) and mark.snapshot is not None}
    found = filled.differences({source: table for source, table in goes_to.items() if table in with_rows})
    return [difference for difference in found if difference.reason in REASONS.values()]


def where_sources_go(filled: FilledTables, shaping: TableMapping) -> dict[SourceName, str | None]:
    """Return the target table, by current settings, of each source that the checkpoint knows."""
    return {source: _target(shaping, source) for source in (*filled.sources, *filled.left)}


def _target(shaping: TableMapping, source: SourceName) -> str | None:
    try:
        return shaping.target(source[0] or None, source[1] or None)
    except DecodeError:  # the target needs a name that the messages did not have
        return None


def with_undescribed(
    described: Sequence[TableName], filled: FilledTables, undescribed: Callable[[], Collection[TableName]]
) -> list[TableName]:
    """Return the described tables, and tables without a description that were left out for a while.

    The source does not describe a table without rows. If it had rows when it was left out, its target still has them.
    """
    more = sorted(filled.left.keys() & undescribed()) if filled.left.keys() - set(described) else []
    return [*described, *(name for name in more if name not in described)]


def away(names: Collection[TableName], filled: FilledTables, capture: TableCapture) -> list[TableName]:
    """Return the tables that were left out for a while, are captured again, and do not exist any more."""
    return [name for name in sorted(filled.left) if name not in names and capture.includes(name, frozenset())]


def lacking_rows(
    spec: PipelineSpec,
    capture: TableCapture,
    tables: Iterable[TableName],
    mapping: PipelineMapping,
    filled: FilledTables,
) -> IncompleteTables:
    """Return the tables that lack rows of a database server.

    They can be copied again if the pipeline takes snapshots at all.
    """
    if spec.pipeline.resnapshot:  # all tables are copied again
        return IncompleteTables()
    parked = ParkedTables.of(filled.checkpoint).tables
    every = {name: mapping.target(*name) for name in tables}
    replaced = _replaced(filled, every, parked) if spec.pipeline.retry_parked else []
    goes_to = {name: target for name, target in every.items() if target not in parked}
    # A pipeline that reads only the log cannot copy rows again.
    copies = capture.reads_rows
    unknown = goes_to.keys() - filled.sources.keys() - filled.left.keys()
    reached = filled.checkpoint.batches.progress().offsets
    # A driver may have crashed after the batch that read a table, and before it recorded the table as filled.
    asks = unknown and copies and not (filled.is_new or filled.is_adopted)
    before = capture.captured_before(reached) if asks and reached else ()
    again, refused, passed = [], [], []
    for difference in filled.differences(goes_to, before):
        # A table to reset is emptied and copied anyway. Others must not be copied, can be copied, or stop the run.
        if difference.table in spec.pipeline.reset:
            continue
        if copies and difference.was_left_out and not capture.reads_new_tables:
            passed.append(difference)
        elif copies and difference.may_be_emptied:
            again.append(difference)
        elif not (spec.sink.ignore_incompatible and difference.was_left_out):  # it may still be incompatible
            refused.append(difference)
    refused += [difference for difference in replaced if difference.table not in spec.pipeline.reset]
    return IncompleteTables(tuple(again), tuple(refused), tuple(passed))


def check_parked(last: LastBatch, *, accept: bool) -> None:
    """Raise CheckpointMismatch if tables were parked when the last batch was committed, unless gaps are accepted.

    The old checkpoint has the record of the batches that they missed.
    """
    if not last.parked:
        return
    tables = ", ".join(last.parked)
    if accept:
        log.warning("event=gap_accepted table=%s reason=parked under the old checkpoint", tables)
        return
    raise CheckpointMismatch(
        "tables were parked when the last batch was committed, and only the old checkpoint knows the batches that they"
        " missed",
        tables=tables,
        hint="run with the old checkpoint and  --retry  first;  --checkpoint NEW --from earliest --accept-replay  reads"
        " again all that the source still has;  --accept-gap  continues without the missing rows",
    )


def warn_of_adoption(filled: FilledTables) -> None:
    if filled.is_first_unfinished:
        log.info(
            "event=first_batch_repeated reason=the run before ended before it had recorded its first batch"
            " hint=it reads what was planned then, also if the source's settings, such as its topics, are others now; a"
            " new --checkpoint makes a new plan"
        )
    elif filled.is_adopted:
        log.warning(
            "event=tables_adopted reason=the checkpoint does not say which tables it filled, because an older version"
            " wrote it or its first batches were interrupted: they are accepted as they are. penstock verify compares"
            " them with their source"
        )
