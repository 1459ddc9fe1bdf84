from __future__ import annotations

from penstock.ingest.pulsar.ids import EntryIds


def test_each_message_has_the_id_of_its_entry_and_its_index() -> None:
    ids = EntryIds(((12, 5, 8), (12, 6, -1), (13, 0, 0)), (0, 2, 3), 5)
    assert [ids[number] for number in range(len(ids))] == ["12:5:8", "12:5:9", "12:6:-1", "13:0:0", "13:0:1"]
