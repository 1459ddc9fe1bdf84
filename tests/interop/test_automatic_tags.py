"""Automatic tags: the same names on the same snapshots as Java gives to the same history."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.maintenance.automatic_tags import AutomaticTags
from penstock.table.meta.store import TableStore
from tests.interop.oracle.client import JavaRefused, Oracle

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]
START = datetime(2026, 3, 1, 7, 31, tzinfo=UTC)
STEPS = (0, 20, 29, 60, 61, 200, 201, 202, 1400, 1441, 2900, 2901, 2961)  # minutes
UTC_HERE = Environment(zone_offset_millis=lambda _now: 0)
OPTIONS = {
    "daily": {},
    "daily, late": {"tag.creation-delay": "90 min"},
    "daily, no dashes": {"tag.period-formatter": "without_dashes"},
    "hourly": {"tag.creation-period": "hourly"},
    "hourly, late": {"tag.creation-period": "hourly", "tag.creation-delay": "10 min"},
    "hourly, one word": {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
    "two hours": {"tag.creation-period": "two-hours", "tag.period-formatter": "without_dashes"},
    "half hours": {"tag.creation-period-duration": "30 min"},
    "few": {"tag.creation-period": "hourly", "tag.num-retained-max": "3"},
    "complete": {"tag.creation-period": "hourly", "tag.automatic-completion": "true"},
    "ending": {"tag.default-time-retained": "1 d"},
}


def millis(minutes: int) -> int:
    return int((START + timedelta(minutes=minutes)).timestamp() * 1000)


@pytest.fixture(scope="module")
def history(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of Java's whose snapshots were made at START and STEPS minutes after it."""
    folder = tmp_path_factory.mktemp("history")
    path = oracle.create(folder, "shop.t", COLUMNS, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for number, minutes in enumerate(STEPS, 1):
        row = ["+I", number, "x"]
        oracle.ask("write", path=path, rows=[row], user="u", identifier=number, watermark=millis(minutes))
        file = path / "snapshot" / f"snapshot-{number}"
        file.write_text(json.dumps({**json.loads(file.read_text()), "timeMillis": millis(minutes)}))
    return path


@pytest.mark.parametrize("mode", ["process-time", "watermark"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_automatic_tags_equal_those_of_java(
    oracle: Oracle, tmp_path: Path, history: Path, mode: str, options: dict[str, str]
) -> None:
    path = Path(shutil.copytree(history, tmp_path / "javas"))
    wanted = {"write-only": "false", "tag.automatic-creation": mode, **options}
    oracle.alter(path, [{"kind": "set", "key": key, "value": value} for key, value in wanted.items()])
    oracle.ask("write", path=path, rows=[["+I", 99, "x"]], user="u", identifier=99, watermark=millis(4000))
    ours = Path(shutil.copytree(path, tmp_path / "ours"))
    shutil.rmtree(ours / "tag")
    automatic = AutomaticTags.of(TableStore.open(LocalStorage(sync=False), str(ours), ambient=UTC_HERE))
    assert automatic is not None
    automatic.create_due()
    assert oracle.info(ours)["tags"] == oracle.info(path)["tags"] != {}


def test_changes_between_tags_are_those_of_java(oracle: Oracle, tmp_path: Path) -> None:
    options = {"bucket": "1", "tag.period-formatter": "without_dashes"}
    path = oracle.create(tmp_path, "shop.t", COLUMNS, primary_keys=["id"], options=options)
    for rows in (
        [["+I", 1, "a"], ["+I", 2, "b"]],
        [["+I", 3, "c"]],
        [["+U", 1, "d"], ["-D", 2, "b"]],
        [["+I", 4, "e"]],
    ):
        oracle.write(path, rows)
    # `4` is a tag as well as a snapshot, and `other` is no automatic tag.
    for name, snapshot in (("20261201", 1), ("other", 2), ("20261203", 3), ("1", 1), ("4", 3)):
        oracle.tag(path, name, snapshot)

    def same(options: Mapping[str, str]) -> list[list[object]]:
        rows = Table(TableStore.open(LocalStorage(sync=False), str(path))).scan(options=options).to_arrow()
        ours = sorted([row["id"], row["v"]] for row in rows.to_pylist())
        assert ours == sorted(oracle.read(path, options=options).rows)
        return ours

    assert same({"incremental-to-auto-tag": "20261203"}) == [[1, "d"], [3, "c"]]
    assert same({"incremental-to-auto-tag": "20261201"}) == []
    assert same({"incremental-to-auto-tag": "20261202"}) == []
    assert same({"incremental-between": "1,4"}) == [[1, "d"], [3, "c"]]
    assert same({"incremental-between": "3,3"}) == []
    for wrong in ({"incremental-to-auto-tag": "other"}, {"incremental-between": "20261201,2"}):
        with pytest.raises(JavaRefused):
            oracle.read(path, options=wrong)
        with pytest.raises(ConfigError):
            Table(TableStore.open(LocalStorage(sync=False), str(path))).scan(options=wrong).to_arrow()
