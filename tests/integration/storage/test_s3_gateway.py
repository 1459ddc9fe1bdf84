"""Objects as files on a second implementation of S3, which keeps conditions also among many writers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_errors import StoreRefused
from penstock.storage.open import open_storage
from tests.chaos.proxy import proxied
from tests.integration.storage.object_store_contract import ObjectStoreContract, create_without_answers
from tests.integration.storage.places import gateway
from tests.servers import s3

pytestmark = [pytest.mark.s3gateway, pytest.mark.slow]
KEYS = {"s3.access-key": s3.ACCESS_KEY, "s3.secret-key": s3.SECRET_KEY, "s3.path.style.access": "true"}


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


class TestContract(ObjectStoreContract):
    missing = ("404 NoSuchBucket", "create the bucket")

    @pytest.fixture(autouse=True)
    def _give(self, endpoint: str, lake: ObjectStorage) -> None:
        self.storage, self.root = lake, f"/warehouse/{uuid.uuid4()}"
        self.elsewhere = opened(endpoint, "s3://no-lake/w")


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
