"""deletes: soft, from a MongoDB server, whose deletes contain `_id` alone unless old documents are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.mongodb.sync import MongoPlayground, MongoSync

pytestmark = pytest.mark.mongodb


@pytest.mark.parametrize(
    ("conf", "kept"), [(["scan.full-changelog=true"], "v0"), ([], None)], ids=["old documents", "only the key"]
)
def test_deleted_documents_stay_with_a_mark_and_come_back(
    server: MongoPlayground, tmp_path: Path, conf: Sequence[str], kept: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    server.db.create_collection("t", changeStreamPreAndPostImages={"enabled": True})
    server.db.t.insert_many([{"_id": number, "v": f"v{number}"} for number in range(2)])
    sync = MongoSync(server, tmp_path, "t", conf, ["--deletes", "soft", "--table-conf", "bucket=1"])
    sync.run()
    assert caplog.text.count("event=deletes_without_values") == (kept is None)
    server.db.t.delete_one({"_id": 0})
    sync.run()

    def rows() -> dict[str, tuple[object, object, bool]]:
        found = sync.target().scan().to_arrow().to_pylist()
        return {row["_id"]: (row["v"], row["_deleted"], row["_deleted_at"] is not None) for row in found}

    assert rows() == {"0": (kept, True, True), "1": ("v1", False, False)}
    server.db.t.insert_one({"_id": 0, "v": "again"})
    sync.run()
    assert rows()["0"] == ("again", False, False)
