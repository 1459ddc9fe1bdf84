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
from tests.integration.storage.object_store_contract import ObjectStoreContract, create_without_answers
from tests.servers import azure, launch

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


class TestContract(ObjectStoreContract):
    missing = ("404 ContainerNotFound", "create the container")

    @pytest.fixture(autouse=True)
    def _give(self, endpoint: str, lake: ObjectStorage) -> None:
        self.storage, self.root = lake, f"/warehouse/{uuid.uuid4()}"
        self.elsewhere = opened(endpoint, URL.replace("lake", "none"), fs__azure__account__key=azure.KEY)


def test_more_files_than_one_request_deletes_are_deleted(lake: ObjectStorage) -> None:
    """Azure deletes at most 256 blobs with one request."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: lake.write(f"/many/t/{i}", b""), range(300)))
    lake.delete_tree("/many")
    assert list(lake.walk("/many")) == []


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


def test_an_endpoint_of_the_environment_is_probed(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The address is not in the options, but the server is not Azure's either."""
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
