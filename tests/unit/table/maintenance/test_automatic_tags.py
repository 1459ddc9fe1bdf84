"""Tags that make themselves, by the snapshots' times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from penstock.table.maintenance.automatic_tags import AutomaticTags, create_batch_tag
from penstock.table.maintenance.upkeep import keep_up
from penstock.table.meta.tag_periods import TagPeriod
from tests.unit.table.tables import new_table, rows


def millis(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def table_at(folder: Path, times: Sequence[str], *, watermarks: bool = False, **options: str) -> Table:
    """A table with an empty snapshot at each of the times."""
    mode = "watermark" if watermarks else "process-time"
    named = {f"tag.{name.replace('_', '-')}": value for name, value in options.items()}
    table = new_table(folder, options={"tag.automatic-creation": mode, **named})
    for text in times:
        store = at(table, text).store
        watermark = millis(text) if watermarks else None
        Committer(store, "u").commit((), force_empty=True, watermark=watermark)
    return table


def at(table: Table, text: str, offset: int = 0) -> Table:
    moment = millis(text)
    ambient = replace(table.store.ambient, now_millis=lambda: moment, zone_offset_millis=lambda _now: offset)
    return Table(replace(table.store, ambient=ambient))


def made(table: Table) -> dict[str, int]:
    automatic = AutomaticTags.of(table.store)
    assert automatic is not None
    automatic.create_due()
    return table.tags


HOURS = ("2023-07-18T12:12", "2023-07-18T12:59", "2023-07-18T13:00", "2023-07-18T14:00", "2023-07-18T15:00")


def test_a_tag_is_named_after_the_period_that_ended(tmp_path: Path) -> None:
    table = table_at(tmp_path, HOURS, creation_period="hourly")
    assert made(table) == {"2023-07-18 11": 1, "2023-07-18 12": 3, "2023-07-18 13": 4, "2023-07-18 14": 5}


def test_tagging_continues_after_the_newest_automatic_tag(tmp_path: Path) -> None:
    table = table_at(tmp_path, HOURS[:3], creation_period="hourly")
    assert made(table) == made(table) == {"2023-07-18 11": 1, "2023-07-18 12": 3}
    table.create_tag("mine", 3)
    Committer(at(table, HOURS[4]).store, "u").commit((), force_empty=True)
    assert made(table) == {"2023-07-18 11": 1, "2023-07-18 12": 3, "2023-07-18 14": 4, "mine": 3}


def test_tags_of_a_clock_that_was_wrong_keep_no_tags_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = table_at(tmp_path, ["2023-07-18T12:12"], creation_period="hourly")
    assert made(at(table, "2023-07-18T12:13")) == {"2023-07-18 11": 1}
    wrong = at(table, "2099-01-01T05:00")
    Committer(wrong.store, "u").commit((), force_empty=True)
    assert made(wrong) == {"2023-07-18 11": 1, "2099-01-01 04": 2}
    later = at(table, "2023-07-18T14:30")
    Committer(later.store, "u").commit((), force_empty=True)
    assert made(later) == {"2023-07-18 11": 1, "2023-07-18 13": 3, "2099-01-01 04": 2}
    assert "event=automatic_tags_ahead" in caplog.text
    assert "tags=2099-01-01 04 note=a clock that was wrong made these tags: delete them" in caplog.text


def test_a_snapshot_of_a_clock_that_was_wrong_gets_no_tag(tmp_path: Path) -> None:
    table = table_at(tmp_path, ["2023-07-18T12:12"], creation_period="hourly")
    Committer(at(table, "2099-01-01T05:00").store, "u").commit((), force_empty=True)
    Committer(at(table, "2023-07-18T14:30").store, "u").commit((), force_empty=True)
    assert made(at(table, "2023-07-18T14:31")) == {"2023-07-18 11": 1, "2023-07-18 13": 3}


@pytest.mark.parametrize(
    ("period", "style", "name"),
    [
        ("daily", "with-dashes", "2023-07-17"),
        ("daily", "without-dashes", "20230717"),
        ("hourly", "without-dashes", "20230718 11"),
        ("hourly", "without-dashes-and-spaces", "2023071811"),
        ("two-hours", "without-dashes", "2023-07-18 10"),
    ],
)
def test_periods_have_their_names(tmp_path: Path, period: str, style: str, name: str) -> None:
    assert made(table_at(tmp_path, HOURS[:1], creation_period=period, period_formatter=style)) == {name: 1}


def test_any_duration_can_be_a_period(tmp_path: Path) -> None:
    assert made(table_at(tmp_path, HOURS[:1], creation_period_duration="10 min")) == {"202307181200": 1}


def test_tags_wait_for_late_rows(tmp_path: Path) -> None:
    table = table_at(tmp_path, HOURS, creation_period="hourly", creation_delay="10 s")
    assert made(table) == {"2023-07-18 11": 1, "2023-07-18 13": 4}
    with pytest.raises(ConfigError, match="longer than the period"):
        TagPeriod.of({"tag.creation-period": "hourly", "tag.creation-delay": "1 h"})


def test_the_configured_number_of_automatic_tags_is_kept(tmp_path: Path) -> None:
    table = table_at(tmp_path, HOURS, creation_period="hourly", num_retained_max="2")
    table.create_tag("mine", 1)
    assert made(table) == {"2023-07-18 13": 4, "2023-07-18 14": 5, "mine": 1}


def test_missed_periods_are_completed_if_configured(tmp_path: Path) -> None:
    times = ["2023-07-18T12:12", "2023-07-18T18:00", "2023-07-18T18:01", "2023-07-18T18:02"]
    assert made(table_at(tmp_path / "a", times, creation_period="hourly")) == {"2023-07-18 11": 1, "2023-07-18 17": 2}
    completed = table_at(tmp_path / "b", times, creation_period="hourly", automatic_completion="true")
    assert made(completed) == {"2023-07-18 11": 1, "2023-07-18 12": 2, "2023-07-18 13": 3, "2023-07-18 14": 4}


def test_watermarks_create_tags_in_their_zone(tmp_path: Path) -> None:
    table = table_at(tmp_path, HOURS[:3], watermarks=True, creation_period="hourly")
    assert made(table) == {"2023-07-18 11": 1, "2023-07-18 12": 3}
    options = {**table.options, "sink.watermark-time-zone": "Asia/Shanghai"}
    east = new_table(tmp_path / "east", options=options)
    Committer(east.store, "u").commit((), force_empty=True, watermark=millis(HOURS[0]))
    assert made(east) == {"2023-07-18 19": 1}


def test_tags_are_named_by_the_local_clock(tmp_path: Path) -> None:
    table = table_at(tmp_path, HOURS[:1], creation_period="hourly")
    assert made(at(table, HOURS[0], offset=-3_600_000)) == {"2023-07-18 10": 1}


def test_the_zone_of_the_clock_can_be_named(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
    east = new_table(tmp_path, options={**options, "sink.process-time-zone": "Asia/Shanghai"})
    Committer(at(east, HOURS[0]).store, "u").commit((), force_empty=True)
    assert made(at(east, HOURS[0])) == {"2023-07-18 19": 1}
    nowhere = new_table(tmp_path / "b", options={**options, "sink.process-time-zone": "Asia/Nowhere"})
    with pytest.raises(ConfigError, match="not a time zone"):
        AutomaticTags.of(nowhere.store)


def test_tags_end_after_the_default_time(tmp_path: Path) -> None:
    table = table_at(tmp_path, HOURS, creation_period="daily", default_time_retained="1 h")
    assert keep_up(at(table, HOURS[-1]).store).tags == ("2023-07-17",)
    assert keep_up(at(table, "2023-07-18T15:30").store).tags_over == ()
    assert keep_up(at(table, "2023-07-18T16:30").store).tags_over == ("2023-07-17",)


def test_an_idle_table_is_tagged_with_an_empty_snapshot(tmp_path: Path) -> None:
    table = table_at(tmp_path, HOURS[:1])
    assert keep_up(at(table, "2023-07-18T23:59").store).tags == ("2023-07-17",)
    assert keep_up(at(table, "2023-07-18T23:59").store).tags == ()
    assert keep_up(at(table, "2023-07-19T00:00").store).tags == ("2023-07-18",)
    assert table.tags == {"2023-07-17": 1, "2023-07-18": 2}


def test_batch_jobs_replace_their_tag(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"tag.automatic-creation": "batch", "tag.num-retained-max": "1"})
    for text in HOURS[:2]:
        if table.latest_snapshot is not None:
            table.create_tag("older")
        Committer(at(table, text).store, "u").commit((), force_empty=True)
        assert create_batch_tag(table.store) == "batch-write-2023-07-18"
    assert table.tags == {"batch-write-2023-07-18": 2}


def test_a_batch_commit_of_a_writer_makes_the_tag(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "done"}
    table = new_table(tmp_path, options=options)
    for number in (1, 2):
        with table.writer() as writer:
            writer.write(rows(table, (number, None, None)))
            writer.commit()
        assert table.tags == {"done": number}
