"""The part of a range's report about changes beside their rows: comments, incomplete updates, ineffective deletes."""

from __future__ import annotations

from penstock.formats.change import ChangeBatch, RowBatch, SourceSchema
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.pipelines.mapping.table_mapping import SeenSchema, TableMapping
from penstock.pipelines.mapping.target_images import updates
from penstock.pipelines.tasks.range_report import RangeReport
from penstock.table.buckets.layout import Layout

_END_OF_BATCH = 1 << 62  # sorts after all ranges


class RangeFindings:
    """Adds the findings of one range to its report."""

    def __init__(self, mapping: TableMapping, report: RangeReport) -> None:
        self._mapping, self._report, self._range = mapping, report, report.range
        # The columns that updates lack, by target and schema of the source.
        self._omitted: dict[tuple[str, SourceSchema], tuple[str, ...]] = {}

    def see(self, table: str, change: ChangeBatch) -> None:
        """Record the newest event time."""
        self._report.table(table).see(change.event_times)

    def note_comments(self, table: str, change: ChangeBatch) -> None:
        """Record the newest comments of a table.

        They are applied after the batch's rows are written, so no row is read again for them.
        """
        schema = change.schema
        comments = (schema.comment, *(column.comment for column in schema.fields))
        if not schema.comments_follow or all(comment is None for comment in comments):
            return
        source = (schema.database or "", schema.table or "")
        # A change without rows is a definition, and the last one is valid at the end of the batch.
        place = (self._range.number, int(change.positions.max())) if len(change) else (_END_OF_BATCH, 0)
        newest = self._report.table(table).commented
        if source not in newest or newest[source].first <= place:
            newest[source] = SeenSchema(table, schema, place, self._range.place)

    def count_incomplete(
        self, table: str, change: ChangeBatch, layout: Layout, fetched: FetchedMessages | None
    ) -> None:
        """Count updates with incomplete row images.

        One update per schema is examined and represents all of the range.
        """
        count = updates(change)
        if not count:
            return
        known = self._omitted.get((table, change.schema))
        if known is None:
            known = self._omitted[table, change.schema] = self._mapping.left_out(change, layout.schema, fetched)
        if known:
            report = self._report.table(table)
            report.partial += count
            report.omitted = report.omitted or known

    def count_unordered(
        self, table: str, rows: RowBatch, source: SourceSchema, layout: Layout, fetched: FetchedMessages
    ) -> None:
        """Count deletes that have no effect on a table with sequence.field."""
        found = self._mapping.unordered_deletes(rows, source, layout.schema)
        if found.any():
            report = self._report.table(table)
            report.unordered += int(found.sum())
            first = int(rows.positions[int(found.argmax())])
            at = first if fetched.ids is None else fetched.ids[int(fetched.messages.offsets.searchsorted(first))]
            report.unordered_at = report.unordered_at or f"{self._range.place} offset {at}"
