"""Objects as files in the XML protocol of Google Cloud Storage, on the stand-in of these tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.storage.base import Storage, put_if_absent
from penstock.storage.conditional_create import StoreUnsafe
from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_errors import StoreRefused
from penstock.storage.open import open_storage
from tests.integration.storage.object_store_contract import ObjectStoreContract
from tests.servers import google
from tests.servers.google import Google

pytestmark = pytest.mark.slow
URL = f"gs://{google.BUCKET}/warehouse"


@pytest.fixture(scope="module")
def server() -> Iterator[Google]:
    with google.running() as running:
        yield running


@pytest.fixture(scope="module")
def lake(server: Google) -> ObjectStorage:
    return opened(server)


def opened(server: Google, url: str = URL, token: str = google.TOKEN) -> ObjectStorage:
    storage, _ = open_storage(url, {"object-store.base_url": server.url, "object-store.bearer_token": token})
    assert isinstance(storage, ObjectStorage)
    return storage


class TestContract(ObjectStoreContract):
    missing = ("404 NoSuchBucket", "create the bucket")

    @pytest.fixture(autouse=True)
    def _give(self, server: Google, lake: ObjectStorage) -> None:
        self.storage, self.root = lake, f"/warehouse/{uuid.uuid4()}"
        self.elsewhere = opened(server, "gs://no-lake/w")


def test_a_create_whose_answer_was_lost_recognises_our_object(server: Google, lake: Storage) -> None:
    """The client repeats the request, which is refused then."""
    server.lost += ["PUT"]
    assert put_if_absent(lake, "/lost/snapshot-1", b"ours")
    assert server.lost == []
    assert not put_if_absent(lake, "/lost/snapshot-1", b"theirs")
    assert lake.read("/lost/snapshot-1") == b"ours"


def test_a_deletion_whose_answers_were_lost_succeeds(server: Google, lake: Storage) -> None:
    """Google answers 404 to the repeated request."""
    for number in range(30):
        lake.write(f"/lost/t/{number}", b"x")
    server.lost += ["DELETE"] * 3
    lake.delete_tree("/lost/t")
    assert server.lost == []
    assert list(lake.walk("/lost/t")) == []


def test_the_key_of_a_service_account_signs_the_requests(server: Google, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(server.key_file())
    for number, name in enumerate(("fs.gs", "google.cloud")):
        storage, _ = open_storage(URL, {f"{name}.auth.service.account.json.keyfile": str(file)})
        assert storage.create(f"/keys/{number}", b"x")
    storage, _ = open_storage(URL, {"object-store.service_account_key": server.key_file()})
    assert storage.read("/keys/0") == b"x"


def test_a_key_file_of_the_environment_signs_the_requests(
    server: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key.json"
    file.write_text(server.key_file())
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    storage, _ = open_storage(URL, {"object-store.base_url": server.url})
    assert storage.create("/keys/environment", b"x")


def test_a_public_bucket_is_read_without_credentials(server: Google, lake: ObjectStorage) -> None:
    lake.write("/public/f", b"x")
    storage, _ = open_storage(URL, {"object-store.base_url": server.url, "object-store.skip_signature": "true"})
    server.public = True
    try:
        assert storage.read("/public/f") == b"x"
    finally:
        server.public = False


def test_the_key_of_another_account_is_refused(server: Google) -> None:
    with google.running() as other:
        key = other.key_file(gcs_base_url=server.url)
    storage, _ = open_storage(URL, {"object-store.service_account_key": key})
    with pytest.raises(StoreRefused, match="the store answered 401 AuthenticationRequired") as refused:
        storage.write("/w", b"x")
    assert "fs.gs.auth.service.account.json.keyfile" in (refused.value.hint or "")


def test_a_server_that_ignores_conditions_is_refused(server: Google) -> None:
    storage = opened(server, "gs://other-lake/w")
    server.create_bucket("other-lake")
    server.ignores_conditions = True
    try:
        for _ in range(2):
            with pytest.raises(StoreUnsafe, match="only if it does not exist"):
                storage.create("/w/snapshot-1", b"x")
    finally:
        server.ignores_conditions = False
    assert storage.create("/w/snapshot-1", b"x")


def test_a_large_upload_has_parts(server: Google, lake: ObjectStorage) -> None:
    with lake.open_output("/parts/f") as out:
        out.write(b"x" * (12 << 20))
    assert f"POST /{google.BUCKET}/parts/f" in server.asked
