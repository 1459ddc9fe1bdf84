from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.ingest.mysql.position import LogPosition, MariaDbGtidSet, MySqlGtidSet

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_positions_compare_by_file_number_then_place_then_skip() -> None:
    earlier = LogPosition("binlog.999999", 4000)
    assert earlier.is_before(LogPosition("binlog.1000000", 4))
    assert LogPosition("b.000001", 4).is_before(LogPosition("b.000001", 5))
    assert LogPosition("b.000001", 4).is_before(LogPosition("b.000001", 4, skip_events=1))


def test_a_position_survives_json_and_pickle() -> None:
    position = LogPosition("binlog.000042", 1234, f"{UUID}:1-90", 7, 1_700_000_000_000)
    assert LogPosition.from_json(position.to_json()) == position
    assert pickle.loads(pickle.dumps(position)) == position
    assert LogPosition("b.000001", 4).to_json() == {"file": "b.000001", "pos": 4}


@pytest.mark.parametrize("value", [{}, {"file": "b.1"}, {"file": 1, "pos": 4}, {"file": "b.1", "pos": "4"}])
def test_a_broken_offset_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        LogPosition.from_json(value)


def test_a_gtid_set_prints_as_the_server_prints_it() -> None:
    text = f"{UUID}:1-5:7:9-12,{UUID}:tag:3"
    assert str(MySqlGtidSet(f"{UUID.upper()}:1-5:7:9-12,\n{UUID}:tag:3")) == text


@given(st.lists(st.integers(1, 60), max_size=60))
def test_adding_transactions_one_by_one_keeps_exactly_those(numbers: list[int]) -> None:
    known = MySqlGtidSet()
    for number in numbers:
        known.add(f"{UUID}:{number}")
    again = MySqlGtidSet(str(known))
    assert {number for number in range(1, 61) if again.has(f"{UUID}:{number}")} == set(numbers)
    assert known.contains(again)
    assert again.contains(known)


def test_containment_needs_every_interval() -> None:
    whole = MySqlGtidSet(f"{UUID}:1-10")
    assert whole.contains(MySqlGtidSet(f"{UUID}:2-3:9"))
    assert not MySqlGtidSet(f"{UUID}:1-5:7-10").contains(MySqlGtidSet(f"{UUID}:5-7"))
    assert not whole.contains(MySqlGtidSet(f"{UUID}:tag:1"))


def test_a_mariadb_gtid_set_contains_all_transactions_up_to_the_last_of_each_domain() -> None:
    known = MariaDbGtidSet("0-1-100, 7-2-5")
    assert known.has("0-3-100")
    assert not known.has("0-1-101")
    assert not known.has("1-1-1")
    known.add("0-2-101")
    assert str(known) == "0-2-101,7-2-5"


@pytest.mark.parametrize("text", ["abc", "0-1", "0-1-x"])
def test_a_broken_mariadb_set_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        MariaDbGtidSet(text)
