"""Objects as files on a second implementation of S3, which keeps conditions also among many writers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_errors import StoreRefused
from penstock.storage.open import open_storage
from tests.chaos.proxy import proxied
from tests.integration.storage.places import gateway
from tests.integration.storage.troubles import create_without_answers, delete_beside
from tests.unit.storage.contract import StorageContract

pytestmark = [pytest.mark.s3gateway, pytest.mark.slow]
KEYS = {"s3.access-key": "AKTEST", "s3.secret-key": "hidden", "s3.path.style.access": "true"}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ExitStack() as open_things:
        yield gateway(tmp_path_factory.mktemp("versitygw"), open_things)


def opened(endpoint: str, url: str = "s3://lake/warehouse", **keys: str) -> ObjectStorage:
    storage, _ = open_storage(url, {**KEYS, "s3.endpoint": endpoint, **keys})
    assert isinstance(storage, ObjectStorage)
    return storage


@pytest.fixture(scope="module")
def lake(endpoint: str) -> ObjectStorage:
    return opened(endpoint)


class TestContract(StorageContract):
    @pytest.fixture(autouse=True)
    def _give(self, lake: ObjectStorage) -> None:
        self.storage, self.root = lake, f"/warehouse/{uuid.uuid4()}"


def test_one_of_many_concurrent_creates_wins(lake: ObjectStorage) -> None:
    for turn in range(10):
        path = f"/race/snapshot-{turn}"
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda i, path=path: lake.create(path, str(i).encode()), range(16)))  # type: ignore[misc]
        assert won.count(True) == 1
        assert lake.read(path) == str(won.index(True)).encode()


def test_a_large_upload_has_several_parts_and_appears_when_it_is_closed(lake: ObjectStorage) -> None:
    with lake.open_output("/large/f") as out:
        for _ in range(12):
            out.write(b"x" * (1 << 20))
        assert not lake.exists("/large/f")
    assert lake.size("/large/f") == 12 << 20


def test_a_folder_of_which_another_process_deletes_files_is_deleted(
    lake: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_beside(lake, monkeypatch)


def test_a_create_whose_answer_was_lost_recognises_our_object(endpoint: str) -> None:
    port = urlsplit(endpoint).port
    assert port is not None
    with proxied(port) as proxy:
        create_without_answers(opened(f"http://127.0.0.1:{proxy.port}"), proxy)


@pytest.mark.parametrize(
    ("keys", "answer", "cure"),
    [
        ({"s3.secret-key": "wrong"}, "403 SignatureDoesNotMatch", "correct the secret key"),
        ({"s3.access-key": "nobody"}, "404 XAdminUserNotFound", "correct the access key"),
    ],
)
def test_wrong_credentials_are_refused_by_name(endpoint: str, keys: dict[str, str], answer: str, cure: str) -> None:
    with pytest.raises(StoreRefused, match=f"cannot write s3://lake/w: the store answered {answer}") as refused:
        opened(endpoint, **keys).write("/w", b"x")
    assert cure in (refused.value.hint or "")


@pytest.mark.parametrize("call", ["read", "list", "create", "write", "delete_tree"])
def test_a_missing_bucket_is_named(endpoint: str, call: str) -> None:
    storage = opened(endpoint, "s3://no-lake/w")
    calls = {"create": lambda: storage.create("/w", b"x"), "write": lambda: storage.write("/w", b"x")}
    with pytest.raises(StoreRefused, match="404 NoSuchBucket"):
        calls.get(call, lambda: getattr(storage, call)("/w"))()
