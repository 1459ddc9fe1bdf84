from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from penstock.errors import PositionLost
from penstock.ingest.pulsar.admin import SubscriptionState
from penstock.ingest.pulsar.cluster import PulsarCluster
from penstock.ingest.pulsar.position import START, Position
from penstock.ingest.pulsar.settings import PulsarSettings, PulsarStart
from penstock.ingest.pulsar.source import PulsarSource
from penstock.ingest.pulsar.topics import Place
from penstock.ingest.source import NO_LIMIT, Limit

TOPIC = "persistent://public/default/t"
PLACE = (TOPIC, -1)
PROPERTIES = {"pulsar.client.serviceUrl": "pulsar://h", "pulsar.consumer.subscriptionName": "s"}


class Cluster(PulsarCluster):
    """One partition of `count` messages in ledger 3, each in its own entry; `markers` follow that no reader gets."""

    def __init__(self, count: int, markers: int = 0) -> None:
        self.count, self.markers = count, markers
        self.acknowledged: list[tuple[Position, Position]] = []
        self.searches = 0
        self.older: dict[int, int] = {}
        self.state: SubscriptionState | None = None
        self.questions = 0

    @property
    def subscription_name(self) -> str:
        return "s"

    def partitions(self) -> list[Place]:
        return [PLACE]

    def last(self, place: Place) -> Position:
        count = self.count + self.markers
        return Position(3, count - 1) if count else START

    def end(self, place: Place) -> Position:
        return self.last(place)

    def subscription(self, place: Place) -> SubscriptionState | None:
        self.questions += 1
        return self.state

    def received(
        self, place: Place, first: Position, wait: int = 0, count: int = 1000
    ) -> Iterator[tuple[Position, int, int]]:
        self.searches += 1
        begin = max(0, first.entry) if first.ledger == 3 else 0
        for entry in range(begin, min(self.count, begin + count)):
            yield Position(3, entry), 0, 10

    def ledgers(self, place: Place) -> dict[int, int]:
        return {**self.older, 3: self.count}

    def acknowledge(self, place: Place, older: Position, kept: Position) -> None:
        self.acknowledged.append((older, kept))


def source(cluster: Cluster, **more: object) -> PulsarSource:
    made = PulsarSource(PulsarSettings(PROPERTIES, ("t",), **more))  # type: ignore[arg-type]  # as the test names them
    made._known = cluster
    return made


def position(text: str) -> dict[str, dict[str, str]]:
    return {TOPIC: {"-1": text}}


def test_a_batch_ends_at_the_newest_message() -> None:
    topics = source(Cluster(5))
    end = topics.latest_offsets({}, NO_LIMIT)
    assert end == {"offsets": position("3:4:-1"), "subscription": "s", "began": position("-1:-1:-1")}
    (range_,) = topics.plan({}, end, 4)
    assert (range_.place, range_.start, range_.end) == (TOPIC, "-1:-1:-1", "3:4:-1")
    assert topics.latest_offsets(end, NO_LIMIT) is end


def test_a_batch_does_not_end_at_a_marker_which_is_searched_once() -> None:
    cluster = Cluster(5, markers=2)
    topics = source(cluster)
    end = topics.latest_offsets({}, NO_LIMIT)
    assert end["offsets"] == position("3:4:-1")
    assert topics.latest_offsets(end, NO_LIMIT) is end
    before = cluster.searches
    assert topics.latest_offsets(end, NO_LIMIT) is end
    assert cluster.searches == before
    cluster.count = 8
    assert topics.latest_offsets(end, NO_LIMIT)["offsets"] == position("3:7:-1")


@pytest.mark.parametrize(("limit", "entry"), [(Limit(rows=10), 9), (Limit(bytes=200), 19), (Limit(rows=10**6), 99)])
def test_a_limit_is_a_number_of_entries(limit: Limit, entry: int) -> None:
    assert source(Cluster(100)).latest_offsets({}, limit)["offsets"] == position(f"3:{entry}:-1")


@pytest.mark.parametrize(
    ("startup", "begin"),
    [
        (PulsarStart(), "-1:-1:-1"),
        (PulsarStart("latest"), "3:5:before"),
        (PulsarStart("message-id", (3, 2, -1)), "3:2:before"),
        (PulsarStart("message-id", (3, 2, -1), inclusive=False), "3:3:before"),
        (PulsarStart("message-id", (3, 2, 7)), "-1:-1:-1"),
    ],
)
def test_a_new_checkpoint_begins_as_configured(startup: PulsarStart, begin: str) -> None:
    end = source(Cluster(5), startup=startup).latest_offsets({}, NO_LIMIT)
    assert end["began"] == position(begin)


def test_a_changed_answer_leaves_out_no_message_of_a_new_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end needs no second answer: it is the position of a message that was received."""
    changed = iter([Position(3, 4 + (1 << 20))])
    monkeypatch.setattr(Cluster, "last", lambda self, place: next(changed, Position(3, 4)))
    end = source(Cluster(5), startup=PulsarStart("latest")).latest_offsets({}, NO_LIMIT)
    assert end["began"] == position("3:5:before")
    changed = iter([Position(9, 4 + (1 << 20))])
    assert source(Cluster(5)).latest_offsets({}, NO_LIMIT)["offsets"] == position("3:4:-1")


class WithoutAdmin(Cluster):
    def ledgers(self, place: Place) -> dict[int, int]:
        return {}


@pytest.mark.parametrize(
    ("cluster", "error", "hint"),
    [
        (Cluster(5), "the Pulsar partition does not have the ledger", "use --accept-gap"),
        (WithoutAdmin(5), "the ledgers of the partition are not known", "set pulsar.admin.adminUrl"),
    ],
)
def test_a_first_start_in_a_ledger_that_is_not_found_is_refused(cluster: Cluster, error: str, hint: str) -> None:
    topics = source(cluster, startup=PulsarStart("message-id", (2, 4, -1)))
    with pytest.raises(PositionLost, match=error) as caught:
        topics.latest_offsets({}, NO_LIMIT)
    assert (caught.value.hint or "").startswith(hint)


def test_a_bounded_run_ends_at_its_target() -> None:
    cluster = Cluster(5)
    topics = source(cluster)
    until = topics.available()
    cluster.count = 9
    end = topics.latest_offsets({}, NO_LIMIT, until)
    assert end["offsets"] == position("3:4:-1")
    assert topics.latest_offsets(end, NO_LIMIT, until) is end


def test_the_batch_that_may_be_repeated_is_not_acknowledged() -> None:
    cluster = Cluster(9)
    topics = source(cluster)
    for entry in (2, 5, 5, 8):
        topics.mirror({"offsets": position(f"3:{entry}:-1")})
    kept = [str(kept) for _, kept in cluster.acknowledged]
    assert kept == ["3:2:-1", "3:2:-1", "3:5:-1", "3:5:-1"]
    assert [str(older) for older, _ in cluster.acknowledged] == ["-1:-1:-1", "-1:-1:-1", "3:2:-1", "3:2:-1"]


def test_the_lag_is_counted_in_entries() -> None:
    topics = source(Cluster(9))
    assert topics.lag({"offsets": position("3:4:-1")}) == {TOPIC: 4}
    assert topics.lag({"offsets": position("3:8:-1")}) == {TOPIC: 0}
    assert topics.lag({}) == {TOPIC: 9}


@pytest.mark.parametrize(
    ("at", "entries"),
    [("-1:-1:-1", 126), ("0:49:-1", 126), ("1:39:-1", 86), ("1:40:before", 86), ("1:99:-1", 26), ("2:16:-1", 9)],
)
def test_the_lag_counts_the_entries_of_older_ledgers(at: str, entries: int) -> None:
    cluster = Cluster(9)
    cluster.older = {1: 100, 2: 17}
    assert source(cluster).lag({"offsets": position(at)}) == {TOPIC: entries}


def test_an_accepted_gap_is_part_of_the_offsets() -> None:
    topics = source(Cluster(9), accept_gap=True)
    start = {"offsets": position("2:7:-1"), "subscription": "s"}
    end = topics.latest_offsets(start, NO_LIMIT)
    assert end["gaps"] == position("3:0:before")
    assert topics.plan(start, end, 1)[0].start == "3:0:before"


LEDGERS = {3: 9}


@pytest.mark.parametrize(
    ("at", "exists", "acknowledged", "lost"),
    [
        ("-1:-1:-1", True, (3, -1), False),
        # Something else acknowledged messages, but they are still there.
        ("-1:-1:-1", True, (3, 4), False),
        ("-1:-1:-1", True, (2, 4), True),
        ("-1:-1:-1", False, (-1, -1), True),
        # The pipeline acknowledges what is before its start.
        ("2:5:before", True, (2, 4), False),
        ("2:5:before", True, (2, 5), True),
        # What was read is looked for instead.
        ("3:2:-1", False, (-1, -1), False),
    ],
)
def test_messages_that_were_never_read_are_missed(
    at: str, exists: bool, acknowledged: tuple[int, int], lost: bool
) -> None:
    cluster = Cluster(9)
    cluster.state = SubscriptionState(exists, acknowledged, LEDGERS, (3, 8))
    start = {"offsets": position(at), "subscription": "s"}
    if not lost:
        assert source(cluster).latest_offsets(start, NO_LIMIT)["offsets"] == position("3:8:-1")
        return
    with pytest.raises(PositionLost, match="Pulsar topic"):
        source(cluster).latest_offsets(start, NO_LIMIT)
    accepting = source(cluster, accept_gap=True)
    end = accepting.latest_offsets(start, NO_LIMIT)
    (range_,) = accepting.plan(start, end, 1)
    assert (range_.start, range_.end) == ("3:0:before", "3:8:-1")


def test_the_subscription_is_looked_at_once_and_a_new_one_has_lost_nothing() -> None:
    cluster = Cluster(0)
    cluster.state = SubscriptionState(True, (3, -1), LEDGERS, (3, -1))
    topics, start = source(cluster), {"offsets": position("-1:-1:-1"), "subscription": "s"}
    for _ in range(3):
        assert topics.latest_offsets(start, NO_LIMIT) is start
    assert cluster.questions == 1
    cluster.state = SubscriptionState(False, (-1, -1), LEDGERS, (3, -1))
    renamed = start | {"subscription": "former"}
    assert source(cluster).latest_offsets(renamed, NO_LIMIT)["offsets"] == position("-1:-1:-1")
    assert cluster.questions == 1


def test_only_settings_are_sent_to_tasks() -> None:
    topics = source(Cluster(1))
    assert pickle.loads(pickle.dumps(topics)).settings == topics.settings
