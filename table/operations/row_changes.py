"""Changes of rows that a statement computed, with the old and the new rows: what may be written, and as which kinds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.table.merge.engines.registry import merge_engine, merge_spec
from penstock.table.operations.write import TableWriter
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.schema.table_schema import TableSchema


def old_values_of_updates(schema: TableSchema) -> list[str]:
    """Return the columns beside the key whose old values `RowChanges` needs of updated rows; others may be null.

    Where the changelog is the input, the old rows are written. Deleted rows need the values of all columns.
    """
    options = schema.typed
    if options[CHANGELOG_PRODUCER].copies_input or merge_engine(options).null_means_unchanged:
        needed = set(schema.names)
    else:
        needed = {*merge_spec(schema).sequence_fields, *schema.partition_keys} if schema.primary_keys else set()
    return [name for name in schema.names if name in needed - set(schema.primary_keys)]


@dataclass(slots=True)
class RowChanges:
    """The changes of one statement on their way to the writer.

    A batch has the kind of each change in its first column, then the old values of all columns of the table, then the
    new ones. Old rows of updates are written to tables whose changelog is their input, so that it is complete; in other
    tables they may have nulls instead of values that no rule needs (`old_values_of_updates`).

    `refuses_older` refuses updates that the table would ignore, `keys_may_differ` those that would change a key.
    """

    schema: TableSchema
    table: str
    refuses_older: bool = False
    keys_may_differ: bool = False
    counts: dict[int, int] = field(default_factory=lambda: dict.fromkeys((INSERT, UPDATE_AFTER, DELETE), 0))

    def write(self, writer: TableWriter, batch: pa.RecordBatch) -> None:
        """Write the changes of a batch."""
        kinds = batch.column(0).to_numpy(zero_copy_only=False)
        width = len(self.schema.fields)
        names = [field.name for field in self.schema.fields]
        # By position, since old and new values have the same names.
        old = pa.RecordBatch.from_arrays(batch.columns[1 : 1 + width], names=names)
        new = pa.RecordBatch.from_arrays(batch.columns[1 + width :], names=names)
        changed = kinds == UPDATE_AFTER
        before, after = old.filter(pa.array(changed)), new.filter(pa.array(changed))
        if self.keys_may_differ:
            self._refuse_other_keys(before, after)
        self._refuse_nulls(before, after)
        if self.refuses_older:
            self._refuse_older(before, after)
        if changed.any() and self.schema.typed[CHANGELOG_PRODUCER].copies_input:
            self._write(writer, old, changed, UPDATE_BEFORE)
        for rows, kind in ((old, DELETE), (new, UPDATE_AFTER), (new, INSERT)):
            self._write(writer, rows, kinds == kind, kind)
            self.counts[kind] += int((kinds == kind).sum())

    def _write(self, writer: TableWriter, rows: pa.RecordBatch, chosen: np.ndarray, kind: int) -> None:
        count = int(chosen.sum())
        if count:
            writer.write(rows.filter(pa.array(chosen)), np.full(count, kind, np.int8))

    def _refuse_other_keys(self, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        for name in self.schema.primary_keys:
            if pc.any(pc.not_equal(old.column(name), new.column(name))).as_py():
                raise ConfigError(
                    f"{name!r} is a part of the key and cannot be changed",
                    table=self.table,
                    hint="DELETE the row, and INSERT it with the new key",
                )

    def _refuse_nulls(self, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        """Refuse to set values to null where null means that the old value stays."""
        if not merge_engine(self.schema.typed).null_means_unchanged:
            return
        # Writers replace a null by the default of its column.
        for name in (column.name for column in self.schema.fields if column.default is None):
            if pc.any(pc.and_(pc.is_null(new.column(name)), pc.is_valid(old.column(name)))).as_py():
                raise ConfigError(
                    f"the column {name!r} cannot be set to null: in a partial-update table null keeps the old value",
                    table=self.table,
                    hint="delete the row and insert it again, if the table allows deletes",
                )

    def _refuse_older(self, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        """Refuse new rows that the table would ignore, because their sequence field is lower than in the old rows."""
        spec = merge_spec(self.schema)
        older, same = np.zeros(old.num_rows, np.bool_), np.ones(old.num_rows, np.bool_)
        for name in spec.sequence_fields:
            a, b = old.column(name), new.column(name)
            lower = pc.greater(b, a) if spec.descending else pc.less(b, a)
            lost = pc.and_(pc.is_null(b), pc.is_valid(a))
            # A later sequence field decides only where all fields before it are equal.
            older |= same & _mask(pc.or_(pc.fill_null(lower, fill_value=False), lost))
            same &= _mask(pc.fill_null(pc.equal(a, b), fill_value=False)) | _mask(pc.and_(pc.is_null(a), pc.is_null(b)))
        if older.any():
            raise ConfigError(
                "the update would be ignored: it makes rows older by the sequence field of the table",
                table=self.table,
                sequence_field=", ".join(spec.sequence_fields),
                key={name: new.column(name)[int(older.argmax())].as_py() for name in self.schema.primary_keys},
                hint="DELETE the row and INSERT it again, or set a value that is not older",
            )


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)
