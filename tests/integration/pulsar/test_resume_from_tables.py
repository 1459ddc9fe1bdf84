"""A checkpoint that is lost: a new one begins at the position of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kafka.test_behaviours import canal
from tests.integration.pulsar.conftest import Broker
from tests.integration.pulsar.sync import Sync
from tests.without_spark import run_here


def inserted(*ids: int) -> list[str]:
    return [canal("INSERT", "t", {"id": "INT"}, {"id": str(number)}, pkNames=None) for number in ids]


@pytest.mark.pulsar
@pytest.mark.parametrize("partitions", [0, 2])
def test_a_new_checkpoint_continues_at_the_position_of_the_tables(
    broker: Broker, tmp_path: Path, partitions: int
) -> None:
    sync, topic = Sync(broker, tmp_path), broker.topic(partitions)
    broker.send(topic, *inserted(1, 2))

    def run(*flags: str) -> None:
        made = sync.spec(topic, "--table", "t", "--checkpoint", f"{tmp_path}/checkpoint", *flags)
        # Without keys, rows that come twice are seen.
        sink = made.sink.model_copy(update={"sync_primary_keys_from_source_schema": False})
        run_here(made.model_copy(update={"sink": sink}))

    run()
    broker.send(topic, *inserted(3))
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    run("--resume-from-tables")
    assert sync.ids("t") == [1, 2, 3]
    broker.send(topic, *inserted(4))
    run()
    assert sync.ids("t") == [1, 2, 3, 4]
