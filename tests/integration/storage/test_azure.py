"""Objects as files on Azurite, Microsoft's emulator of Azure Blob Storage."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock.errors import ConfigError
from penstock.storage import object_store
from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_errors import StoreRefused
from penstock.storage.open import open_storage
from tests.chaos.proxy import proxied
from tests.integration.storage.troubles import create_without_answers, delete_beside
from tests.servers import azure, launch
from tests.unit.storage.contract import StorageContract

pytestmark = [pytest.mark.azure, pytest.mark.slow]
URL = f"abfss://lake@{azure.ACCOUNT}.dfs.core.windows.net/warehouse"
WRONG_KEY = "A" * 84 + "AA=="


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with launch.running("azurite", tmp_path_factory.mktemp("azurite")) as port:
        address = f"http://127.0.0.1:{port}/{azure.ACCOUNT}"
        azure.create_container(address, "lake")
        yield address


def opened(endpoint: str, url: str = URL, **options: str) -> ObjectStorage:
    given = {name.replace("__", "."): text for name, text in options.items()}
    storage, _ = open_storage(url, {"object-store.endpoint": endpoint} | given)
    assert isinstance(storage, ObjectStorage)
    return storage


@pytest.fixture(scope="module")
def lake(endpoint: str) -> ObjectStorage:
    return opened(endpoint, fs__azure__account__key=azure.KEY)


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


def test_a_large_upload_has_several_blocks_and_appears_when_it_is_closed(lake: ObjectStorage) -> None:
    with lake.open_output("/large/f") as out:
        for _ in range(12):
            out.write(b"x" * (1 << 20))
        assert not lake.exists("/large/f")
    assert lake.size("/large/f") == 12 << 20
    assert lake.read_range("/large/f", (12 << 20) - 3, 3) == b"xxx"


def test_more_files_than_one_request_deletes_are_deleted(lake: ObjectStorage) -> None:
    """Azure deletes at most 256 blobs with one request."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: lake.write(f"/many/t/{i}", b""), range(300)))
    lake.delete_tree("/many")
    assert list(lake.walk("/many")) == []


def test_a_folder_of_which_another_process_deletes_files_is_deleted(
    lake: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_beside(lake, monkeypatch)


def test_a_create_whose_answer_was_lost_recognises_our_object(endpoint: str) -> None:
    port = urlsplit(endpoint).port
    assert port is not None
    with proxied(port) as proxy:
        there = endpoint.replace(str(port), str(proxy.port))
        create_without_answers(opened(there, fs__azure__account__key=azure.KEY), proxy)


@pytest.mark.parametrize("host", ["dfs", "blob"])
def test_the_key_of_an_account_is_valid_for_all_its_hosts(endpoint: str, host: str) -> None:
    options = {f"fs.azure.account.key.{azure.ACCOUNT}.{host}.core.windows.net": azure.KEY}
    storage, _ = open_storage(URL, {"object-store.endpoint": endpoint, "fs.azure.account.key": WRONG_KEY} | options)
    assert storage.create(f"/keys/{host}", b"x")


@pytest.mark.parametrize("option", ["fs__azure__sas__fixed__token", "object-store__sas_key"])
@pytest.mark.parametrize("mark", ["", "?"])
def test_a_signature_gives_the_rights_that_it_names(endpoint: str, option: str, mark: str) -> None:
    """Deletes are left out: Azurite answers 500 to those of several blobs with a signature."""
    path = f"/signed/{uuid.uuid4()}"
    writing = opened(endpoint, **{option: mark + azure.signature()})
    writing.write(path, b"x")
    assert [entry.size for entry in writing.list("/signed")].count(1)
    reading = opened(endpoint, **{option: mark + azure.signature("rl")})
    assert reading.read(path) == b"x"
    with pytest.raises(StoreRefused, match=f"cannot write abfs://lake{path}: the store answered 403"):
        reading.write(path, b"y")


REFUSED = {
    "wrong key": {"fs__azure__account__key": WRONG_KEY},
    "expired signature": {"fs__azure__sas__fixed__token": azure.signature(seconds=-60)},
    "signature without a signature": {"fs__azure__sas__fixed__token": "sv=1"},
    "nothing": {"object-store__skip_signature": "true"},
}


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_wrong_credentials_are_refused_by_name(endpoint: str, options: dict[str, str]) -> None:
    with pytest.raises(StoreRefused, match=r"cannot create abfs://lake/w/.*: the store answered 403") as refused:
        opened(endpoint, **options).create("/w/snapshot-1", b"x")
    assert "fs.azure.account.key or the shared access signature" in (refused.value.hint or "")


@pytest.mark.parametrize("call", ["read", "exists", "list", "walk", "create", "write", "delete_tree", "output"])
def test_a_missing_container_is_named(endpoint: str, call: str) -> None:
    """The answer to `size` is that of a missing object: one to HEAD has no text."""
    storage = opened(endpoint, URL.replace("lake", "none"), fs__azure__account__key=azure.KEY)
    calls = {
        "walk": lambda: list(storage.walk("/w")),
        "create": lambda: storage.create("/w", b"x"),
        "write": lambda: storage.write("/w", b"x"),
        "output": lambda: storage.open_output("/w").close(),
    }
    with pytest.raises(StoreRefused, match="404 ContainerNotFound") as refused:
        calls.get(call, lambda: getattr(storage, call)("/w"))()
    assert "create the container" in (refused.value.hint or "")


def test_an_endpoint_of_the_environment_is_probed(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is no option, and others than Azure run it all the same."""
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
    probed: list[str] = []
    monkeypatch.setattr(object_store, "probe", lambda _storage, folder: probed.append(folder))
    storage, _ = open_storage(URL, {"fs.azure.account.key": azure.KEY})
    assert storage.create(f"/{tmp_path.name}/snapshot-1", b"x")
    assert probed == [f"/{tmp_path.name}"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"fs__azure__account__key": "no base 64!"}, "Invalid Access Key"),
        ({"fs__azure__sas__fixed__token": "nonsense"}, "SAS"),
        ({"object-store__skip_signature": "perhaps"}, "boolean"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_a_request(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match="the options of abfs://lake cannot be used") as refused:
        opened("http://127.0.0.1:9", **options).read("/w")
    assert reason in str(refused.value)
    assert not refused.value.retryable
