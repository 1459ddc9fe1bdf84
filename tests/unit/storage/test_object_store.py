"""Objects as files, against a real S3 interface on loopback."""

from __future__ import annotations

import contextlib
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import obstore
import pytest
from moto.server import ThreadedMotoServer

from penstock.errors import ConfigError
from penstock.storage.base import Storage, put_if_absent
from penstock.storage.conditional_create import StoreUnsafe, probe
from penstock.storage.object_store import FOLDER_MARK, ObjectStorage
from penstock.storage.open import open_storage
from tests.servers.s3 import create_bucket
from tests.unit.storage.contract import StorageContract

KEYS = {"s3.access-key": "AKTEST", "s3.secret-key": "${TEST_S3_SECRET}", "s3.path.style.access": "true"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def s3(endpoint: str) -> Any:
    return create_bucket(endpoint)


@pytest.fixture
def lake(endpoint: str, s3: Any, monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    monkeypatch.setenv("TEST_S3_SECRET", "hidden")
    storage, _ = open_storage("s3://lake/warehouse", {**KEYS, "s3.endpoint": endpoint})
    assert isinstance(storage, ObjectStorage)
    return storage


class TestContract(StorageContract):
    @pytest.fixture(autouse=True)
    def _give(self, lake: ObjectStorage) -> None:
        self.storage, self.root = lake, f"/warehouse/{uuid.uuid4()}"


def test_object_keys_are_those_of_java(lake: ObjectStorage, s3: Any) -> None:
    lake.write("/odd/p=a%2Fb c#日/f", b"x")
    assert [item["Key"] for item in s3.list_objects_v2(Bucket="lake", Prefix="odd")["Contents"]] == [
        "odd/p=a%2Fb c#日/f"
    ]


def test_folder_markers_of_hadoop_are_not_listed_as_files(lake: ObjectStorage, s3: Any) -> None:
    s3.put_object(Bucket="lake", Key="hadoop/x.db/", Body=b"")
    assert lake.exists("/hadoop/x.db")
    assert [(entry.name, entry.is_dir) for entry in lake.list("/hadoop")] == [("x.db", True)]
    assert lake.list("/hadoop/x.db") == []


class Deaf(BaseHTTPRequestHandler):
    """A store that knows no conditions: it puts whatever it is given."""

    protocol_version = "HTTP/1.1"
    conditions: ClassVar[list[str | None]] = []

    def do_PUT(self) -> None:
        self.conditions.append(self.headers["If-None-Match"])
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def answer(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@contextlib.contextmanager
def deaf_store() -> Iterator[tuple[Storage, str, list[str | None]]]:
    """Yield a store that knows no conditions, a path in it, and the conditions that it is given."""
    conditions: list[str | None] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Deaf,), {"conditions": conditions})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            options = {"s3.endpoint": f"http://127.0.0.1:{server.server_port}", "s3.secret-key": "x"}
            options |= {"s3.access-key": "x", "object-store.disable_bulk_delete": "true"}
            yield *open_storage("s3://lake/w", options), conditions
        finally:
            server.shutdown()
            thread.join()


def test_a_commit_to_a_store_that_replaces_files_is_refused() -> None:
    """The table may be there before Penstock is: another engine created it, under a lock."""
    with deaf_store() as (storage, path, _):
        for _ in range(2):
            with pytest.raises(StoreUnsafe, match="only if it does not exist"):
                storage.create(f"{path}/snapshot/snapshot-2", b"{}")


def test_no_thread_creates_a_file_before_the_store_was_tried() -> None:
    """The first batch of a process is committed to many tables at the same time."""
    with deaf_store() as (storage, path, _):

        def create(number: int) -> bool:
            together.wait()
            return storage.create(f"{path}/{number}/snapshot/snapshot-2", b"{}")

        together = threading.Barrier(8)
        with ThreadPoolExecutor(8) as pool:
            tasks = [pool.submit(create, number) for number in range(8)]
        assert {type(task.exception()) for task in tasks} == {StoreUnsafe}


def test_a_store_whose_address_is_in_the_environment_is_tried_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with deaf_store() as (storage, path, _):
        assert isinstance(storage, ObjectStorage)
        config = dict(storage.config)
        monkeypatch.setenv("AWS_ENDPOINT_URL", config.pop("endpoint"))
        around = ObjectStorage("s3", "lake", tuple(config.items()))
        with pytest.raises(StoreUnsafe, match="only if it does not exist"):
            around.create(f"{path}/snapshot/snapshot-2", b"{}")


# That of many makers one wins is the store's promise; moto, asked by several threads, does not keep it.
def test_a_store_that_ignores_conditional_puts_is_unsafe() -> None:
    with deaf_store() as (storage, path, conditions):
        with pytest.raises(StoreUnsafe, match="only if it does not exist"):
            probe(storage, path)
        assert conditions == ["*", "*"]


def test_an_unfinished_upload_creates_no_file(lake: ObjectStorage) -> None:
    out = lake.open_output("/half/f")
    out.write(b"x" * 100)
    del out
    assert not lake.exists("/half/f")


@pytest.mark.slow
def test_a_large_upload_is_multipart(lake: ObjectStorage) -> None:
    with lake.open_output("/large/f") as out:
        for _ in range(12):
            out.write(b"x" * (1 << 20))
    assert lake.size("/large/f") == 12 << 20


def test_secrets_are_masked_and_pickled_as_references(lake: ObjectStorage, endpoint: str) -> None:
    assert "${TEST_S3_SECRET}" in repr(lake)
    assert b"hidden" not in pickle.dumps(lake)
    plain, _ = open_storage("s3a://lake/w", {"fs.s3a.secret.key": "hidden", "fs.s3a.endpoint": endpoint})
    assert "hidden" not in repr(plain)
    assert endpoint in repr(plain)


def test_a_missing_reference_is_reported_at_the_first_call(endpoint: str) -> None:
    storage, path = open_storage("s3://lake/w", {"s3.secret-key": "${NO_SUCH_SECRET}", "s3.endpoint": endpoint})
    with pytest.raises(ConfigError, match="the environment variable NO_SUCH_SECRET is not set"):
        storage.exists(path)


@pytest.mark.slow
def test_a_store_that_does_not_answer_fails_as_an_os_error() -> None:
    storage, _ = open_storage("s3://lake", {**KEYS, "s3.secret-key": "x", "s3.endpoint": "http://127.0.0.1:9"})
    with pytest.raises(OSError, match="no answer from http"):
        storage.read("/x")


def test_the_marker_of_an_empty_folder_is_not_listed(lake: ObjectStorage, s3: Any) -> None:
    lake.mkdirs("/marked")
    assert s3.head_object(Bucket="lake", Key=f"marked/{FOLDER_MARK}")["ContentLength"] == 0
    assert lake.list("/marked") == []


class Forgetful(BaseHTTPRequestHandler):
    """A store that makes the first object and then loses its reply, or says that it failed."""

    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, bytes]] = {}
    replies: ClassVar[list[int]] = []
    way: ClassVar[str] = ""

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path in self.objects:
            assert self.headers["If-None-Match"] == "*"
            return self._reply(412)
        self.objects[self.path] = data
        if self.way == "cut":
            self.close_connection = True
            return None
        return self._reply(500)

    def do_GET(self) -> None:
        self._reply(200, self.objects[self.path])

    def _reply(self, code: int, body: bytes = b"") -> None:
        self.replies.append(code)
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Sun, 22 Nov 2026 06:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["cut", "500"])
def test_a_create_repeated_by_the_client_recognises_our_object(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectStorage, "_check_creates", lambda *_: None)
    handler = type("Handler", (Forgetful,), {"objects": {}, "replies": [], "way": way})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = {**KEYS, "s3.secret-key": "x", "s3.endpoint": f"http://127.0.0.1:{server.server_port}"}
        storage, _ = open_storage("s3://lake", options)
        assert put_if_absent(storage, "/t/snapshot-1", b"ours")
        assert not put_if_absent(storage, "/t/snapshot-1", b"theirs")
        server.shutdown()
    assert 412 in handler.replies  # type: ignore[attr-defined]


@pytest.mark.parametrize("calls", range(14))
def test_a_killed_rename_leaves_only_complete_tables(
    lake: ObjectStorage, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Objects are copied and deleted one by one; a name whose schema is there has all other objects too."""
    folder = f"/warehouse/{uuid.uuid4()}"
    names = ["bucket-0/data", "manifest/m", "schema/schema-0", "schema/schema-1", "snapshot/LATEST", "snapshot/s"]
    for name in names:
        lake.write(f"{folder}/old/{name}", name.encode())
    left, copy, delete = calls, obstore.copy, obstore.delete

    def counted(real: Callable[..., None], *given: Any) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        real(*given)

    def delete_each(client: Any, keys: list[str]) -> None:
        for key in keys:
            counted(delete, client, [key])

    with monkeypatch.context() as patched:
        patched.setattr("obstore.copy", lambda *given: counted(copy, *given))
        patched.setattr("obstore.delete", delete_each)
        with contextlib.suppress(KeyboardInterrupt):
            lake.rename_tree(f"{folder}/old", f"{folder}/new")
    found = {entry.name for entry in lake.walk(folder)}
    shown = [table for table in ("old", "new") if f"{table}/schema/schema-1" in found]
    assert shown
    for table in shown:
        complete = {f"{table}/{name}" for name in names}
        # The deletion of the schemas is several requests here, and one in a store.
        assert complete - found <= {f"{table}/schema/schema-0"}
    assert (calls < 6) == (shown == ["old"])
