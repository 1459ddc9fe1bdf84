"""Dead letters of a pipeline that reads a table: each row is replayed once, and as it was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.api.dead_letters import letters_of, settle
from penstock.pipelines.api.replay_dead_letters import ended, replay
from penstock.pipelines.config.load import parsed
from penstock.table.handle import Table
from penstock.table.schema.changes import UpdateColumnNullability
from penstock.table.usable import check_usable
from tests.unit.pipelines.table_source.test_source import LOGGED, Lake

LETTERS = "dwd.__penstock_dead_letters"
REFUSED = {"source-table": "ods.*", "condition": "score < 1000", "action": "dead-letter"}
Rules = dict[str, Any]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def run_with(lake: Lake, *, refused: bool, **sections: Any) -> None:
    rules: Rules = {"expect": [REFUSED]} if refused else {}
    lake.run("orders", errors={"bad-record": "dead-letter", "dead-letter": {"max-share": "100%"}}, **rules, **sections)


def replayed(lake: Lake, **sections: Any) -> dict[str, int]:
    """Replay the letters by a pipeline without the rule that refused them. Return the number of rows by table."""
    spec = parsed(
        {
            "pipeline": {"name": "layer", "checkpoint": f"{lake.folder}/checkpoint"},
            "source": {"type": "table", "tables": ["ods.orders"]},
            "sink": {"catalog": {"warehouse": f"{lake.folder}/lake"}, "database": "dwd"},
            "errors": {"bad-record": "dead-letter"},
            **sections,
        }
    )
    table = lake.table(LETTERS)
    letters = letters_of(table.scan().to_arrow())
    done = replay(spec, letters, table)
    settle(table, letters, done.bad, "layer")
    ended(spec, done.writer)
    assert not done.bad
    return done.rows


def high(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "city": "a", "score": 1000 + number} for number in ids]


@pytest.mark.slow
def test_rows_of_several_batches_of_the_state_are_all_replayed(lake: Lake) -> None:
    """Each batch numbers its rows from 0, so the place must name the part of the table."""
    lake.create("orders", {"bucket": "5"})
    lake.write("orders", high(*range(60)))
    run_with(lake, refused=True, pipeline={"max-batch": {"rows": 10}})
    letters = lake.table(LETTERS).scan().to_arrow()
    positions = letters["source_position"].to_pylist()
    assert (len(positions), len(set(positions))) == (60, 60)
    assert replayed(lake) == {"dwd.orders": 60}
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")
    assert lake.table(LETTERS).scan().to_arrow().num_rows == 0


def with_one_position(table: Table) -> None:
    """Give all letters one position, as an older version did for rows of several parts."""
    rows = table.scan().to_arrow()
    place = rows.schema.get_field_index("source_position")
    rows = rows.set_column(place, rows.schema.field(place), [["ods.orders/rows@0"] * len(rows)])
    with table.overwrite() as writer:
        writer.write(rows)
        writer.commit()


def test_letters_with_one_position_and_other_content_are_all_replayed(lake: Lake) -> None:
    lake.create("orders", {"bucket": "1"})
    lake.write("orders", high(*range(6)))
    run_with(lake, refused=True)
    with_one_position(lake.table(LETTERS))
    assert replayed(lake) == {"dwd.orders": 6}
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")
    assert lake.table(LETTERS).scan().to_arrow().num_rows == 0


def test_of_letters_with_one_position_only_those_still_bad_are_kept(lake: Lake) -> None:
    lake.create("orders", {"bucket": "1"})
    lake.write("orders", high(*range(6)))
    run_with(lake, refused=True)
    with_one_position(lake.table(LETTERS))
    table = lake.table(LETTERS)
    letters = letters_of(table.scan().to_arrow())
    bad = {letter.name: ("bad-value", f"still bad {number}") for number, letter in enumerate(letters) if number % 2}
    settle(table, letters, bad, "layer")
    kept = lake.table(LETTERS).scan().to_arrow()
    values = {letter.value: letter.name for letter in letters}
    found = {values[row["raw_value"]]: row["error"] for row in kept.to_pylist()}
    assert found == {name: text for name, (_, text) in bad.items()}
    assert kept["attempt"].to_pylist() == [1] * 3


def test_a_choice_of_letters_does_not_remove_others_of_the_same_position(lake: Lake) -> None:
    lake.create("orders", {"bucket": "1"})
    lake.write("orders", high(*range(4)))
    run_with(lake, refused=True)
    with_one_position(lake.table(LETTERS))
    table = lake.table(LETTERS)
    chosen = letters_of(table.scan().to_arrow().slice(0, 1))
    settle(table, chosen, {}, "layer")
    assert lake.table(LETTERS).scan().to_arrow().num_rows == 3


def doubled(lake: Lake) -> list[tuple[Any, ...]]:
    return [(key, city, 2 * score) for key, city, score in lake.rows("ods.orders")]


DOUBLE = [{"source-table": "ods.*", "projection": "id, city, score * 2 AS score"}]


def test_a_replayed_row_is_transformed_once(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    lake.write("orders", high(1, 2, 3))
    run_with(lake, refused=True, transform=DOUBLE)
    assert lake.table(LETTERS).scan().to_arrow().num_rows == 3
    assert replayed(lake, transform=DOUBLE) == {"dwd.orders": 3}
    assert lake.rows("dwd.orders") == doubled(lake)


def test_a_value_that_does_not_fit_its_table_is_kept_as_it_was_read(lake: Lake) -> None:
    """The rows are refused after the transform, by the type that the target has."""
    lake.create("orders", LOGGED)
    lake.catalog.create_database("dwd")
    columns = [("id", "BIGINT NOT NULL"), ("city", "STRING"), ("score", "BIGINT NOT NULL")]
    lake.catalog.create_table("dwd.orders", columns, ["id"], options={"bucket": "1"})
    lake.write("orders", [*high(1), {"id": 2, "city": "b", "score": None}])
    fixed = {"schema.change.behavior": "ignore"}
    lake.run("orders", errors={"bad-record": "dead-letter"}, transform=DOUBLE, pipeline=fixed)
    letters = letters_of(lake.table(LETTERS).scan().to_arrow())
    assert [json.loads(letter.value or b"")["data"][0]["id"] for letter in letters] == ["2"]
    store = lake.table("dwd.orders").store
    store.evolve([UpdateColumnNullability("score", nullable=True)], check_usable)
    assert replayed(lake, transform=DOUBLE) == {"dwd.orders": 1}
    assert lake.rows("dwd.orders") == [(1, "a", 2002), (2, "b", None)]


@pytest.mark.slow
def test_a_replayed_update_removes_the_row_that_leaves_the_filter(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    rule = [{"source-table": "ods.*", "filter": "score % 2 = 0"}]
    broken = [{**rule[0], "projection": "*, CAST(city AS INT) AS number"}]
    fine = [{**rule[0], "projection": "*, 1 AS number"}]
    lake.write("orders", [{"id": number, "city": "1", "score": 2} for number in (1, 2)])
    errors = {"bad-record": "dead-letter"}
    lake.run("orders", errors=errors, transform=broken)
    lake.write("orders", [{"id": 1, "city": "x", "score": 3}], ["+U"])
    lake.run("orders", errors=errors, transform=broken)
    assert [row[0] for row in lake.rows("dwd.orders")] == [1, 2]
    replayed(lake, transform=fine)
    assert [row[0] for row in lake.rows("dwd.orders")] == [2]
