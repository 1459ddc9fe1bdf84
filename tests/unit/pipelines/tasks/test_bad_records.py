"""Records that cannot be taken: failing, skipping, dead letters, and the limits of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, DecodeError, PenstockError
from penstock.formats.change import BadRecord
from penstock.pipelines.ledger.batch_identity import NEWEST
from penstock.pipelines.tasks.bad_records import OnBad
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.here import run
from tests.shop import Shop, change, insert

LETTERS = "__penstock_dead_letters"
KEEP = {"bad-record": "dead-letter"}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def letters(shop: Shop) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = shop.table(LETTERS).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["source_position"], row["offset"]))


def test_the_error_names_the_format_that_the_record_has() -> None:
    def hint(message: str) -> str:
        return OnBad().error(BadRecord(0, "bad", message, insert("orders", {"id": 1}).encode()), "t/0").hint or ""

    meant = "the record looks like canal-json: set  value.format=canal-json  if the others have it too. --on-bad-record"
    assert hint("Invalid debezium-json format: missing 'op' field.").startswith(meant)
    for message in ("Invalid canal-json format: missing 'type' field.", "'seven' does not fit INT"):
        assert hint(message).startswith("--on-bad-record dead-letter , in a file  errors: {bad-record: dead-letter}")


def test_dead_letters_contain_the_record_and_the_reason(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 5}), "{nonsense", insert("orders", {"id": 2, "q1": "seven"}))
    run(shop.spec(errors=KEEP))
    assert shop.ids("orders") == [1]
    first, second = sorted(letters(shop), key=lambda row: row["offset"])
    assert (first["raw_value"], first["error_class"], first["target_table"]) == (b"{nonsense", "not-json", None)
    assert first["source_position"] == f"1.json@{first['offset']}"
    assert (first["pipeline"], first["topic"], first["partition"], first["attempt"]) == ("shop", "1.json", 0, 0)
    assert (second["error_class"], second["target_table"]) == ("bad-value", "ods.orders")
    assert json.loads(second["raw_value"])["data"] == [{"id": "2", "q1": "seven"}]
    assert "q1" in second["error"]


def test_dead_letters_are_committed_with_their_batch_under_its_identity(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), "{nonsense")
    run(shop.spec(errors=KEEP))
    kept, written = (shop.table(name).latest_snapshot for name in (LETTERS, "orders"))
    assert kept is not None
    assert written is not None
    assert (kept.commit_user, kept.commit_identifier) == (written.commit_user, written.commit_identifier)
    assert kept.properties == {name: value for name, value in written.properties.items() if name != NEWEST}


def test_a_replayed_batch_keeps_its_dead_letters_once(shop: Shop) -> None:
    def die(*_: object) -> None:
        raise PenstockError("died between the commits and the log of the batch")

    shop.put("1.json", insert("orders", {"id": 1}), "{nonsense")
    with pytest.raises(PenstockError, match="died"):
        run(shop.spec(errors=KEEP), on_batch=die)
    run(shop.spec(errors=KEEP))
    assert len(letters(shop)) == 1
    assert shop.snapshots(LETTERS) == 1


def test_drift_writes_the_dead_letters_of_all_tables_once(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}), insert("users", {"id": 1, "q1": 1}))
    run(shop.spec(errors=KEEP))
    shop.put(
        "2.json",
        "{nonsense",
        insert("users", {"id": 2, "q1": "users"}),
        insert("orders", {"id": 2, "q1": "before"}),
        insert("orders", {"id": 3, "q1": 3, "q2": 4}),
        insert("orders", {"id": 4, "q1": "after", "q2": 5}),
    )
    reports: list[BatchReport] = []
    run(shop.spec(errors=KEEP), on_batch=lambda _, report: reports.append(report))
    assert sorted((row["target_table"] or "", row["error_class"]) for row in letters(shop)) == [
        ("", "not-json"),
        ("ods.orders", "bad-value"),
        ("ods.orders", "bad-value"),
        ("ods.users", "bad-value"),
    ]
    assert reports[0].bad_count == 4
    assert shop.files(LETTERS) == {file.name for file in shop.live(LETTERS)}
    assert (shop.ids("orders"), shop.ids("users")) == ([1, 3], [1])


def test_skipped_records_are_counted(shop: Shop) -> None:
    reports: list[BatchReport] = []
    shop.put("1.json", "{nonsense", insert("orders", {"id": 1}))
    run(shop.spec(errors={"bad-record": "skip"}), on_batch=lambda _, report: reports.append(report))
    assert (reports[0].bad_count, reports[0].messages) == (1, 2)
    assert not (shop.folder / "warehouse/ods.db" / LETTERS).exists()


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_a_wrong_option_stops_at_once_and_captures_nothing(shop: Shop, policy: str) -> None:
    shop.put("1.json", *("no JSON at all" for _ in range(20)))
    with pytest.raises(DecodeError, match="20 of 20") as caught:
        run(shop.spec(errors={"bad-record": policy}))
    assert caught.value.facts["place"] == "1.json"
    if policy == "dead-letter":
        assert shop.files(LETTERS) == set()
    run(shop.spec(errors={"bad-record": policy, policy: {"max-share": "100%"}}))
    assert policy == "skip" or len(letters(shop)) == 20


@pytest.mark.slow
def test_the_limit_of_bad_records_counts_recent_batches(shop: Shop) -> None:
    for number in range(20):
        shop.put(f"{number:02}.json", "no JSON at all")
    with pytest.raises(DecodeError, match="11 of 11"):
        run(shop.spec(pipeline={"max-batch": {"rows": 1}}, errors=KEEP))
    assert len(letters(shop)) == 10


def test_too_many_bad_records_in_a_batch_stop_the_job(shop: Shop) -> None:
    shop.put("1.json", *(insert("orders", {"id": number}) for number in range(100)), "{a", "{b", "{c")
    with pytest.raises(DecodeError, match="more than 2 in one batch"):
        run(shop.spec(errors=KEEP | {"dead-letter": {"max-per-batch": "2"}}))
    run(shop.spec(errors=KEEP | {"dead-letter": {"max-per-batch": "3", "table": "letters"}}))
    assert shop.table("letters").scan().to_arrow().num_rows == 3


def test_another_table_is_not_used_as_the_dead_letter_table(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec())
    with pytest.raises(ConfigError, match="the dead-letter table exists with other columns"):
        run(shop.spec(errors=KEEP | {"dead-letter": {"table": "orders"}}))


def test_the_option_of_paimon_skips_corrupt_records(shop: Shop) -> None:
    shop.put("1.json", "{nonsense", insert("orders", {"id": 1}))
    run(shop.spec(sink={"table-options": {"bucket": "1", "cdc.skip-corrupt-record": "true"}}))
    assert shop.ids("orders") == [1]


def test_values_are_hidden_in_messages_if_configured(shop: Shop) -> None:
    shop.put("1.json", "{nonsense")
    with pytest.raises(DecodeError) as caught:
        run(shop.spec(sink={"table-options": {"bucket": "1", "cdc.log-corrupt-record": "false"}}))
    assert "nonsense" not in str(caught.value)


def test_both_images_of_a_bad_update_are_kept(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}))
    run(shop.spec(errors=KEEP))
    shop.put("2.json", change("UPDATE", "orders", {"id": 1, "q1": "x"}, old=[{"q1": 1}]))
    run(shop.spec(errors=KEEP))
    assert shop.rows("orders") == [{"id": 1, "q1": 1}]
    assert len(letters(shop)) == 1


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_a_bad_record_changes_no_schema(shop: Shop, policy: str) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "q1": 1}))
    run(shop.spec(errors={"bad-record": policy}))
    shop.put("2.json", insert("orders", {"id": 2, "q1": "seven", "name": "new"}), insert("orders", {"id": 3, "q1": 3}))
    run(shop.spec(errors={"bad-record": policy}))
    assert shop.rows("orders") == [{"id": 1, "q1": 1}, {"id": 3, "q1": 3}]
    assert shop.table("orders").schema_id == 0
    assert policy == "skip" or [row["target_table"] for row in letters(shop)] == ["ods.orders"]
    shop.put("3.json", insert("orders", {"id": 4, "q1": "x", "name": "n"}, {"id": 5, "q1": 1, "name": "n"}))
    shop.put("4.json", insert("orders", {"id": 6, "q1": 6, "name": "n"}))
    run(shop.spec(errors={"bad-record": policy}))
    assert shop.ids("orders") == [1, 3, 6]
    assert shop.table("orders").schema_id == 1


@pytest.mark.parametrize(
    ("deletes", "rule", "kept"),
    [
        ("soft", "expect", [(1, 5, False), (2, -1, True)]),
        ("soft", "filter", [(1, 5, False)]),
        ("history", "expect", [(1, 5, None)]),
        ("hard", "expect", [(1, 5, None)]),
    ],
)
def test_the_delete_of_a_row_that_a_rule_left_out(
    shop: Shop, deletes: str, rule: str, kept: list[tuple[int, int, bool | None]]
) -> None:
    """Only a mark needs a row: the rule does not say whether an earlier version of it is in the table."""
    source = {"source-table": "shop.orders"}
    shop.put("1.json", insert("orders", {"id": 1, "q1": 5}, {"id": 2, "q1": -1}))
    shop.put("2.json", change("DELETE", "orders", {"id": 2, "q1": -1}))
    rules: dict[str, Any] = {
        "expect": {"expect": [{**source, "condition": "q1 >= 0", "action": "drop"}]},
        "filter": {"transform": [{**source, "filter": "q1 >= 0"}]},
    }
    run(shop.spec(sink={"deletes": deletes}, **rules[rule]))
    assert [(row["id"], row["q1"], row.get("_deleted")) for row in shop.rows("orders")] == kept
