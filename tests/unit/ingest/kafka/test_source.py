"""The plan of a Kafka source against a cluster that is a dictionary."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.errors import ConfigError, PositionLost
from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets
from penstock.ingest.kafka.source import KafkaSource
from penstock.ingest.source import NO_LIMIT, Limit, Offsets, canonical

Place = tuple[str, int]


class Cluster:
    """`logs` maps a partition to its first offset and its end."""

    def __init__(self, logs: dict[Place, tuple[int, int]], group: dict[Place, int] | None = None) -> None:
        self.logs = logs
        self.group = group or {}
        self.ids: dict[str, str] = {}
        self.epochs: dict[Place, int] = {}

    def topics_matching(self, pattern: str) -> list[str]:
        return sorted({topic for topic, _ in self.logs})

    def partitions(self, topics: Iterable[str]) -> tuple[list[Place], dict[str, str]]:
        names = set(topics)
        places = sorted(place for place in self.logs if place[0] in names)
        return places, {name: self.ids.get(name, "1") for name in names}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        there = {topic for topic, _ in self.logs}
        return {name: self.ids.get(name, "1") if name in there else None for name in topics}

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        return {place: self.logs[place][0] for place in places}

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        return {place: self.logs[place][1] for place in places}

    def bounds(self, places: Iterable[Place]) -> tuple[dict[Place, int], dict[Place, int], dict[Place, int]]:
        firsts, found = self.earliest(places), self.latest(places)
        return firsts, found, {place: self.epochs[place] for place in found if place in self.epochs}

    def written(self, places: Iterable[Place]) -> dict[Place, int]:
        return self.latest(places)

    def at_time(self, places: Iterable[Place], millis: int) -> dict[Place, int]:
        return {place: millis if millis < self.logs[place][1] else -1 for place in places}

    def group_offsets(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        return {place: self.group[place] for place in places if place in self.group}


EARLIEST = StartOffsets("earliest-offset")


def source(cluster: Cluster, startup: StartOffsets = EARLIEST, **settings: Any) -> KafkaSource:
    made = KafkaSource(KafkaSettings({"group.id": "g"}, **({"topics": ("t",)} | settings), startup=startup))
    made._known = cluster  # type: ignore[assignment]
    return made


def spans(kafka: KafkaSource, start: Offsets, end: Offsets, tasks: int = 1) -> list[tuple[str, int, int]]:
    return [(item.place, item.start, item.end) for item in kafka.plan(start, end, tasks)]


@pytest.mark.parametrize(
    ("startup", "begin"),
    [
        (StartOffsets("earliest-offset"), 3),
        (StartOffsets("latest-offset"), 9),
        (StartOffsets("timestamp", millis=5), 5),
        (StartOffsets("timestamp", millis=99), 9),
        (StartOffsets("specific-offsets", {("t", 0): 7}), 7),
        (StartOffsets("specific-offsets", {("t", 8): 7}), 3),
        (StartOffsets("group-offsets", reset="earliest"), 3),
        (StartOffsets("group-offsets", reset="latest"), 9),
    ],
)
def test_a_first_batch_begins_at_the_startup_mode(startup: StartOffsets, begin: int) -> None:
    cluster = Cluster({("t", 0): (3, 9)})
    kafka = source(cluster, startup)
    end = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs["t", 0] = (3, 12)
    later = kafka.latest_offsets(end, NO_LIMIT)
    assert spans(kafka, {}, end) == ([("t/0", begin, 9)] if begin < 9 else [])
    assert spans(kafka, end, later) == [("t/0", 9, 12)]


@pytest.mark.parametrize(
    ("startup", "records"),
    [(EARLIEST, 8), (StartOffsets("latest-offset"), 0), (StartOffsets("timestamp", millis=6), 4)],
)
def test_the_lag_of_a_new_pipeline_is_counted_from_where_its_startup_mode_begins(
    startup: StartOffsets, records: int
) -> None:
    kafka = source(Cluster({("t", 0): (2, 10)}), startup)
    assert kafka.lag(kafka.initial_offsets()) == {"t/0": records}


@pytest.mark.parametrize("end", [3, 20])
def test_the_lag_of_a_topic_that_was_created_again_is_counted_from_its_first_record(end: int) -> None:
    cluster = Cluster({("t", 0): (0, 10)})
    kafka = source(cluster)
    reached = kafka.latest_offsets({}, NO_LIMIT)
    assert kafka.lag(reached) == {"t/0": 0}
    cluster.logs["t", 0], cluster.ids["t"] = (1, end), "2"
    assert kafka.lag(reached) == {"t/0": end - 1}


def test_the_lag_of_a_partition_that_lost_its_last_records_is_never_negative() -> None:
    cluster = Cluster({("t", 0): (0, 10)})
    kafka = source(cluster)
    reached = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs["t", 0] = (2, 6)
    assert kafka.lag(reached) == {"t/0": 4}


def test_group_offsets_of_a_group_that_committed_are_the_beginning() -> None:
    kafka = source(Cluster({("t", 0): (0, 9)}, {("t", 0): 4}), StartOffsets("group-offsets"))
    assert spans(kafka, {}, kafka.latest_offsets({}, NO_LIMIT)) == [("t/0", 4, 9)]


def test_group_offsets_without_any_committed_are_an_error_that_proposes_earliest() -> None:
    with pytest.raises(ConfigError, match="earliest-offset"):
        source(Cluster({("t", 0): (0, 9)}), StartOffsets("group-offsets")).latest_offsets({}, NO_LIMIT)


def test_latest_on_an_idle_topic_is_recorded_as_the_start() -> None:
    cluster = Cluster({("t", 0): (0, 5)})
    kafka = source(cluster, StartOffsets("latest-offset"))
    end = kafka.latest_offsets({}, NO_LIMIT)
    assert end != {}
    cluster.logs["t", 0] = (0, 8)
    assert spans(kafka, end, kafka.latest_offsets(end, NO_LIMIT)) == [("t/0", 5, 8)]


def test_records_of_an_added_partition_that_were_deleted_unread_are_lost() -> None:
    cluster = Cluster({("t", 0): (3, 5)})
    kafka = source(cluster)
    end = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs["t", 1] = (2, 6)
    with pytest.raises(PositionLost) as lost:
        kafka.latest_offsets(end, NO_LIMIT)
    assert (lost.value.facts["partition"], lost.value.facts["lost"]) == (1, 2)
    lenient = source(cluster, accept_gap=True)
    assert spans(lenient, end, lenient.latest_offsets(end, NO_LIMIT)) == [("t/1", 2, 6)]


def test_a_topic_that_is_added_is_read_from_its_first_record_left() -> None:
    cluster = Cluster({("t", 0): (3, 5)})
    kafka = source(cluster)
    end = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs["u", 0] = (2, 6)
    kafka = source(cluster, topics=("t", "u"))
    assert spans(kafka, end, kafka.latest_offsets(end, NO_LIMIT)) == [("u/0", 2, 6)]


def test_without_new_data_the_offsets_stay_the_same() -> None:
    kafka = source(Cluster({("t", 0): (0, 5)}))
    end = kafka.latest_offsets({}, NO_LIMIT)
    again = kafka.latest_offsets(end, NO_LIMIT)
    assert canonical(kafka.latest_offsets(again, NO_LIMIT)) == canonical(again)
    assert spans(kafka, end, again) == []


def test_a_new_partition_is_read_from_its_first_record_in_every_startup_mode() -> None:
    cluster = Cluster({("t", 0): (0, 5)})
    kafka = source(cluster, StartOffsets("latest-offset"))
    first = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs["t", 1] = (0, 6)
    second = kafka.latest_offsets(first, NO_LIMIT)
    assert spans(kafka, first, second) == [("t/1", 0, 6)]


def test_a_batch_planned_again_ignores_later_records() -> None:
    cluster = Cluster({("t", 0): (0, 5)})
    kafka = source(cluster)
    end = kafka.latest_offsets({}, NO_LIMIT)
    before = spans(kafka, {}, end)
    cluster.logs = {("t", 0): (3, 50), ("t", 1): (0, 9)}
    assert spans(kafka, {}, end) == before


def test_a_new_topic_of_a_pattern_is_found() -> None:
    cluster = Cluster({("a", 0): (0, 1)})
    kafka = source(cluster, topics=(), pattern=".*")
    first = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs["b", 0] = (0, 2)
    assert spans(kafka, first, kafka.latest_offsets(first, NO_LIMIT)) == [("b/0", 0, 2)]


def test_a_row_limit_is_shared_in_proportion() -> None:
    kafka = source(Cluster({("t", 0): (0, 300), ("t", 1): (0, 100), ("t", 2): (0, 0)}))
    end = kafka.latest_offsets({}, Limit(rows=40))
    assert end["offsets"] == {"t": {"0": 30, "1": 10, "2": 0}}


def test_a_bounded_run_ends_at_the_end_of_the_source_at_its_start() -> None:
    cluster = Cluster({("t", 0): (0, 10)})
    kafka = source(cluster)
    until = kafka.available()
    cluster.logs = {("t", 0): (0, 25), ("t", 1): (0, 5)}
    end = kafka.latest_offsets({}, Limit(rows=6), until)
    end = kafka.latest_offsets(end, Limit(rows=6), until)
    assert end["offsets"] == {"t": {"0": 10}}
    assert spans(kafka, end, kafka.latest_offsets(end, Limit(rows=6), until)) == []


@pytest.mark.parametrize(("offset", "message"), [(2, "no longer has"), (99, "ends before")])
def test_a_start_at_a_missing_offset_reports_the_requested_and_the_available_offsets(offset: int, message: str) -> None:
    cluster = Cluster({("t", 0): (3, 9)}, {("t", 0): offset})
    requested = StartOffsets("specific-offsets", {("t", 0): offset})
    with pytest.raises(PositionLost, match=f"specific-offsets contains .*{message}") as caught:
        source(cluster, requested).latest_offsets({}, NO_LIMIT)
    assert caught.value.facts == {"topic": "t", "partition": 0, "asked_for": offset, "kept": "3 to 9"}
    assert "from 3 to 9" in (caught.value.hint or "")
    assert "stopped" not in str(caught.value)
    with pytest.raises(PositionLost, match=f"group has committed .*{message}") as caught:
        source(cluster, StartOffsets("group-offsets", reset="latest")).latest_offsets({}, NO_LIMIT)
    assert caught.value.facts["group"] == "g"


@pytest.mark.parametrize("log", [(7, 20), (0, 2), (0, 0)])
def test_deleted_offsets_raise_position_lost(log: tuple[int, int]) -> None:
    cluster = Cluster({("t", 0): (0, 5)})
    kafka = source(cluster)
    end = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs["t", 0] = log
    with pytest.raises(PositionLost) as caught:
        kafka.latest_offsets(end, NO_LIMIT)
    assert caught.value.facts["topic"] == "t"


def test_a_recreated_topic_raises_position_lost_even_if_its_offsets_exist() -> None:
    cluster = Cluster({("t", 0): (0, 5)})
    kafka = source(cluster)
    end = kafka.latest_offsets({}, NO_LIMIT)
    cluster.ids["t"] = "2"
    with pytest.raises(PositionLost, match="created again"):
        kafka.latest_offsets(end, NO_LIMIT)


def test_a_backlog_of_one_partition_becomes_several_ranges_in_order() -> None:
    kafka = source(Cluster({("t", 0): (0, 100_000)}))
    ranges = kafka.plan({}, kafka.latest_offsets({}, NO_LIMIT), tasks=4)
    assert [range_.number for range_ in ranges] == [0, 1, 2, 3]
    assert [(range_.start, range_.end) for range_ in ranges] == [
        (0, 25_000),
        (25_000, 50_000),
        (50_000, 75_000),
        (75_000, 100_000),
    ]


def test_the_source_pickles_without_its_connections() -> None:
    kafka = source(Cluster({}))
    assert pickle.loads(pickle.dumps(kafka)).settings == kafka.settings


class Examined:
    """Leader epochs whose partitions in `lost` are found to be cut; `asked` counts the questions."""

    def __init__(self, lost: set[Place]) -> None:
        self.lost, self.asked = lost, 0

    def cut(self, offsets: dict[Place, int], recorded: dict[Place, int], current: dict[Place, int]) -> set[Place]:
        other = {place for place in offsets if recorded.get(place, current[place]) != current[place]}
        self.asked += len(other)
        return other & self.lost


def test_a_partition_that_was_cut_and_has_grown_again_is_a_lost_position() -> None:
    cluster = Cluster({("t", 0): (0, 5), ("t", 1): (0, 5)})
    cluster.epochs = {("t", 0): 3, ("t", 1): 3}
    kafka, examined = source(cluster), Examined({("t", 1)})
    kafka._epochs = examined  # type: ignore[assignment]
    end = kafka.latest_offsets({}, NO_LIMIT)
    assert end["epochs"] == {"t": {"0": 3, "1": 3}}
    cluster.logs = {("t", 0): (0, 9), ("t", 1): (0, 9)}
    assert spans(kafka, end, kafka.latest_offsets(end, NO_LIMIT)) == [("t/0", 5, 9), ("t/1", 5, 9)]
    assert examined.asked == 0
    cluster.epochs = {("t", 0): 4, ("t", 1): 4}
    with pytest.raises(PositionLost, match="has other records at their offsets now") as caught:
        kafka.latest_offsets(end, NO_LIMIT)
    assert caught.value.facts["partition"] == 1
    accepting = source(cluster, accept_gap=True)
    accepting._epochs = examined  # type: ignore[assignment]
    later = accepting.latest_offsets(end, NO_LIMIT)
    assert later["epochs"] == {"t": {"0": 4, "1": 4}}
    assert spans(accepting, end, later) == [("t/0", 5, 9), ("t/1", 0, 9)]


def test_the_epochs_of_a_topic_that_was_created_again_are_not_compared() -> None:
    cluster = Cluster({("t", 0): (0, 5)})
    cluster.epochs, cluster.ids = {("t", 0): 3}, {"t": "first"}
    kafka, examined = source(cluster, accept_gap=True), Examined(set())
    kafka._epochs = examined  # type: ignore[assignment]
    end = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs, cluster.epochs, cluster.ids = {("t", 0): (0, 9)}, {("t", 0): 0}, {"t": "second"}
    later = kafka.latest_offsets(end, NO_LIMIT)
    assert spans(kafka, end, later) == [("t/0", 0, 9)]
    assert (examined.asked, later["epochs"]) == (0, {"t": {"0": 0}})


def test_offsets_that_are_deferred_keep_the_epochs_in_which_they_were_determined() -> None:
    cluster = Cluster({("t", 0): (0, 5)})
    cluster.epochs = {("t", 0): 3}
    kafka = source(cluster)
    position = kafka.latest_offsets({}, NO_LIMIT)
    cluster.logs, cluster.epochs = {("t", 0): (0, 9), ("t", 1): (0, 4)}, {("t", 0): 4, ("t", 1): 7}
    kafka._epochs = Examined(set())  # type: ignore[assignment]
    end = kafka.latest_offsets(position, NO_LIMIT)
    kept = kafka.deferred(kafka.standing(position), end)
    assert kept["offsets"] == {"t": {"0": 5, "1": 0}}
    assert kept["epochs"] == {"t": {"0": 3, "1": 7}}
