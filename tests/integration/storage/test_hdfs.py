"""Files on a real HDFS."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.ingest.files.source import FilesSettings, FilesSource
from penstock.ingest.source import Limit
from penstock.storage.open import open_storage
from penstock.storage.state_folder import StateFolder
from tests.servers import launch
from tests.unit.storage.contract import StorageContract

pytestmark = pytest.mark.hdfs


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with launch.running("hdfs", tmp_path_factory.mktemp("hdfs")) as port:
        storage, path = open_storage(f"hdfs://127.0.0.1:{port}/warehouse", {"dfs.replication": "1"})
        assert path == "/warehouse"
        yield storage


def test_a_source_keeps_its_state_on_hdfs_without_installed_hadoop(hdfs: Any) -> None:
    folder = f"{hdfs.url}/in-{uuid.uuid4()}"
    for name in ("2.json", "1.json"):
        assert hdfs.create(f"/{folder.rpartition('/')[2]}/{name}", b"{}\n")
        time.sleep(0.01)  # the name node counts milliseconds
    source = FilesSource(FilesSettings(folder, StateFolder(f"{folder}/_ledger")))
    assert source.latest_offsets({"batch": 0}, Limit()) == {"batch": 1}
    assert [item.place for item in source.plan({"batch": 0}, {"batch": 1}, 1)] == ["2.json", "1.json"]  # by their time
    again = FilesSource(FilesSettings(folder, StateFolder(f"{folder}/_ledger")))
    assert again.latest_offsets({"batch": 1}, Limit()) == {"batch": 1}


STARTS_A_PROCESS = """
import os, subprocess, sys
from penstock.storage.open import open_storage
def look():
    storage, root = open_storage(sys.argv[1], {})
    print(storage.exists(root), flush=True)
look()
subprocess.run(["true"], preexec_fn=os.getpid, check=True)
look()
"""


def test_a_process_that_used_hdfs_can_start_the_jvm_of_spark(hdfs: Any) -> None:
    """The child must not wait for threads of the client, which exist only in its parent."""
    words = [sys.executable, "-c", STARTS_A_PROCESS, f"{hdfs.url}/"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, check=True)
    assert done.stdout.split() == ["True", "True"]


FORKS = """
import os, sys
from penstock.storage.open import open_storage
storage, root = open_storage(sys.argv[1], {})
def look():
    storage.list(root)
look()
child = os.fork()
if child == 0:
    look()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_of_a_process_that_used_hdfs_can_use_hdfs(hdfs: Any) -> None:
    words = [sys.executable, "-c", FORKS, f"{hdfs.url}/"]
    assert subprocess.run(words, capture_output=True, text=True, timeout=280, check=True).stdout == "7\n"


class TestContract(StorageContract):
    @pytest.fixture(autouse=True)
    def _give(self, hdfs: Any) -> None:
        self.storage, self.root = hdfs, f"/warehouse/{uuid.uuid4()}"


def test_one_of_many_concurrent_creates_wins_and_leaves_no_temporary_files(hdfs: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: hdfs.create("/race/snapshot-1", str(i).encode()), range(16)))
    assert won.count(True) == 1
    assert hdfs.read("/race/snapshot-1") == str(won.index(True)).encode()
    assert [entry.name for entry in hdfs.list("/race")] == ["snapshot-1"]


def test_a_name_node_that_does_not_answer_fails_as_an_os_error() -> None:
    url, options = f"hdfs://127.0.0.1:{launch.free_port()}/w", {"dfs.client.failover.max.attempts": "1"}
    storage, path = open_storage(url, options)
    with pytest.raises(OSError, match="HDFS failed at /w"):
        storage.read(path)
