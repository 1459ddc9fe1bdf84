"""Quality rules on changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ConfigError, DecodeError
from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.schema_evolution.expectations import CheckedRows, ExpectAction, Expectation, checked
from penstock.schema_evolution.soft_deletes import with_marks
from penstock.schema_evolution.types.mapping import TypeMapping

Row = tuple[int, str | None]
RULES = [Expectation.of("shop.t", "amount > 0", "drop", "amount")]


def changes(*rows: Row) -> ChangeBatch:
    """Rows of (kind, amount) with their number as id; the two images of an update share a position."""
    kinds = np.array([kind for kind, _ in rows], np.int8)
    positions = np.cumsum([kind != UPDATE_AFTER or not at for at, (kind, _) in enumerate(rows)])
    return ChangeBatch(
        pa.RecordBatch.from_pydict({"id": list(map(str, range(len(rows)))), "amount": [text for _, text in rows]}),
        kinds,
        positions.astype(np.int64),
        np.zeros(len(rows), np.int32),
        SourceSchema("mysql", "shop", "t", (SourceField("id", "int"), SourceField("amount", "int")), ("id",)),
        np.full(len(rows), -1, np.int64),
    )


def look(change: ChangeBatch, *rules: tuple[str, ExpectAction]) -> CheckedRows:
    expected = [
        Expectation.of("shop.t", condition, action, f"rule {at}") for at, (condition, action) in enumerate(rules)
    ]
    return checked(change, expected, TypeMapping(), 0)


def ids(found: CheckedRows) -> list[str]:
    names: list[str] = found.change.rows.column("id").to_pylist()
    return names


def test_a_warning_only_counts() -> None:
    found = look(changes((INSERT, "1"), (INSERT, "-1"), (INSERT, None)), ("amount > 0", "warn"))
    assert ids(found) == ["0", "1", "2"]
    assert found.counts == {"expect.warn.rule 0": 2}, "null does not meet a condition"


def test_old_rows_that_were_left_out_as_new_ones_are_counted() -> None:
    update = ((UPDATE_BEFORE, "-1"), (UPDATE_AFTER, "2"))
    dropped = ((UPDATE_BEFORE, "-1"), (UPDATE_AFTER, "-2"))
    change = changes(*update, *dropped, (DELETE, "-1"), (DELETE, "1"), (INSERT, "-1"))
    assert look(change, ("amount > 0", "drop")).never_added == 2, "an update and a delete remain"
    assert look(change, ("amount > 0", "dead-letter")).never_added == 2
    assert look(change, ("amount > 0", "warn")).never_added == 0, "the rows were added"
    assert look(changes((DELETE, None)), ("amount > 0", "drop")).never_added == 0, "a delete with only its key"


def test_old_images_are_dropped_with_their_rows_and_deletes_remain() -> None:
    change = changes((INSERT, "-1"), (UPDATE_BEFORE, "1"), (UPDATE_AFTER, "-1"), (UPDATE_AFTER, "2"), (DELETE, "-1"))
    found = look(change, ("amount > 0", "drop"))
    assert ids(found) == ["3", "4"]
    assert found.change.kinds.tolist() == [UPDATE_AFTER, DELETE]
    # One of the two is an update, whose row stays in the table as it was before.
    assert found.counts == {"expect.drop.rule 0": 2, "updates.dropped": 1}


def test_a_marked_delete_is_a_delete() -> None:
    found = look(with_marks(changes((DELETE, "-1"), (INSERT, "-1")), 0), ("amount > 0", "drop"))
    assert ids(found) == ["0"]


def test_a_dead_letter_is_the_whole_message() -> None:
    found = look(changes((UPDATE_BEFORE, "1"), (UPDATE_AFTER, "-1"), (INSERT, "1")), ("amount > 0", "dead-letter"))
    assert ids(found) == ["2"]
    assert [(record.pos, record.message) for record in found.bad] == [
        (1, "shop.t: the expectation rule 0 is not met: amount > 0")
    ]


def test_a_failure_names_the_row() -> None:
    with pytest.raises(DecodeError, match="rule 0") as failed:
        look(changes((INSERT, "1"), (INSERT, "-1")), ("amount > 0", "fail"))
    assert failed.value.facts["key"] == "id=1"
    assert failed.value.facts["condition"] == "amount > 0"


def test_all_rules_apply_and_dropped_rows_are_not_counted_again() -> None:
    found = look(
        changes((INSERT, "1"), (INSERT, "-1"), (INSERT, "99")), ("amount > 0", "drop"), ("amount < 50", "warn")
    )
    assert found.counts == {"expect.drop.rule 0": 1, "expect.warn.rule 1": 1}


def test_a_value_that_cannot_be_read_is_a_bad_record() -> None:
    found = look(changes((INSERT, "many"), (INSERT, "1")), ("amount > 0", "warn"))
    assert ids(found) == ["1"]
    assert found.counts == {}
    assert "many" in found.bad[0].message


@pytest.mark.parametrize(("condition", "words"), [("amount + 1", "true or false"), ("total > 0", "'total'")])
def test_a_condition_that_the_columns_do_not_allow_is_refused(condition: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        look(changes((INSERT, "1")), (condition, "warn"))


def moved(before: str, after: str, amount: str = "-1") -> ChangeBatch:
    """Return an update that moves a row to another partition, as a delete and an insert of one message."""
    rows = changes((DELETE, "1"), (INSERT, amount), (INSERT, "1"))
    batch = pa.RecordBatch.from_pydict({"id": [before, after, "9"], "amount": rows.rows.column("amount")})
    return replace(rows, rows=batch, positions=np.array([1, 1, 1]), subs=np.array([2, 3, 5], np.int32))


@pytest.mark.parametrize("marks", [False, True])
def test_an_update_that_moves_a_row_to_another_partition_is_an_update(marks: bool) -> None:
    change = moved("4", "4")
    found = checked(with_marks(change, 0) if marks else change, RULES, TypeMapping(), 0, keys=("id",))
    assert ids(found) == ["9"], "the table keeps the row as it was"
    assert found.counts == {"expect.drop.amount": 1, "updates.dropped": 1}


def test_a_row_that_is_dropped_at_another_key_is_deleted_at_the_old_one() -> None:
    """Its next change would make a second row beside the old one, which nothing would ever delete."""
    found = checked(moved("4", "5"), RULES, TypeMapping(), 0, keys=("id",))
    assert ids(found) == ["4", "9"]
    assert found.change.kinds.tolist() == [DELETE, INSERT]


def test_a_moved_row_that_meets_the_condition_stays() -> None:
    assert ids(checked(moved("4", "4", "2"), RULES, TypeMapping(), 0, keys=("id",))) == ["4", "4", "9"]


def test_rows_without_types_may_lack_the_column_of_a_rule() -> None:
    schema = SourceSchema("text", "shop", "t", (SourceField("id", ""),), ("id",))
    rows = pa.RecordBatch.from_pydict({"id": ["1", "2"]})
    kinds, zeros = np.array([INSERT, DELETE], np.int8), np.zeros(2, np.int32)
    change = ChangeBatch(rows, kinds, np.arange(2), zeros, schema, np.full(2, -1, np.int64))
    assert ids(look(change, ("amount is null", "drop"))) == ["1", "2"]
    assert ids(look(change, ("cast(amount as int) > 0", "drop"))) == ["2"]
    with pytest.raises(ConfigError, match="'amount', which is not a column"):
        look(replace(change, schema=replace(schema, dialect="mysql")), ("amount is null", "drop"))
