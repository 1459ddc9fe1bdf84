"""The errors for a refusing, absent or unknown object store, each with a hint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from penstock.errors import PenstockError, StoreError
from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_errors import StoreRefused, explained


class Answer(BaseHTTPRequestHandler):
    """Gives every request the same answer."""

    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_PUT = do_POST = _answer  # noqa: N815 -- the names that the base class calls

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def lake(endpoint: str) -> ObjectStorage:
    keys = {"access_key_id": "AKTEST", "secret_access_key": "hidden", "region": "us-east-1"}
    return ObjectStorage("s3", "lake", tuple({**keys, "endpoint": endpoint}.items()))


def failure(storage: ObjectStorage, operation: str) -> PenstockError:
    ask = {"read": storage.read, "write": lambda path: storage.write(path, b"x"), "list": storage.list}[operation]
    with pytest.raises(PenstockError) as caught:
        ask("/w/f")
    assert isinstance(caught.value, OSError)
    assert str(caught.value).count("\n") <= 2
    for dump in ("Debug source", "RetryError", "source:", "hidden"):
        assert dump not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("operation", ["read", "write", "list"])
@pytest.mark.parametrize(
    ("status", "code", "kind", "cure"),
    [
        (403, "SignatureDoesNotMatch", StoreRefused, "secret key"),
        (403, "InvalidAccessKeyId", StoreRefused, "access key"),
        (403, "AccessDenied", StoreRefused, "allow these credentials"),
        (404, "NoSuchBucket", StoreRefused, "create the bucket"),
        (400, "AuthorizationHeaderMalformed", StoreError, "s3.region"),
    ],
)
def test_an_error_of_the_store_has_a_hint(
    endpoint: str, operation: str, status: int, code: str, kind: type[PenstockError], cure: str
) -> None:
    Answer.status, Answer.body = status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    error = failure(lake(endpoint), operation)
    assert type(error) is kind
    assert error.message == f"cannot {operation} s3://lake/w/f: the store answered {status} {code}"
    assert cure in (error.hint or "")
    assert error.retryable == (kind is StoreError)


def test_a_bucket_of_another_region(endpoint: str) -> None:
    Answer.status, Answer.body = 301, b"<Error><Code>PermanentRedirect</Code></Error>"
    error = failure(lake(endpoint), "read")
    assert error.message == "cannot read s3://lake/w/f: the bucket is in another region"


@pytest.mark.slow
def test_an_unreachable_store() -> None:
    error = failure(lake("http://127.0.0.1:1"), "read")
    assert error.message.startswith("cannot read s3://lake/w/f: no answer from http://127.0.0.1:1 in ")
    assert "s3.endpoint" in (error.hint or "")
    assert error.retryable


@pytest.mark.parametrize(
    ("kind", "url", "cure"),
    [
        ("s3", "PUT http://169.254.169.254/latest/api/token", "s3.access-key"),
        ("gs", "GET http://metadata.google.internal/computeMetadata/v1/token", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("abfs", "GET http://169.254.169.254/metadata/identity/oauth2/token", "fs.azure.account.key"),
    ],
)
def test_missing_credentials_are_reported(kind: str, url: str, cure: str) -> None:
    answered = OSError(
        f"Generic error: Error performing {url} in 1ms - Server returned non-2xx status code: 404 Not Found"
    )
    silent = OSError(
        f"Generic error: Error performing {url} in 3s, after 10 retries - HTTP error: error sending request"
    )
    for answer, retryable in ((answered, False), (silent, True)):
        error = explained(answer, kind, "list", f"{kind}://lake/w")
        assert error.message == f"cannot list {kind}://lake/w: there are no credentials for the store"
        assert cure in (error.hint or "")
        assert "169.254" not in str(error)
        assert error.retryable is retryable


@pytest.mark.slow
def test_a_container_without_an_account() -> None:
    error = failure(ObjectStorage("abfs", "lake"), "read")
    assert "names no storage account" in error.message
