"""The bucket of tests on any server that speaks S3, and a server of moto whose requests fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app

BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "AKTEST", "hidden"


_ERROR = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"


def create_bucket(endpoint: str, name: str = BUCKET) -> Any:
    """Create a bucket, and return the client that did."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=name)
    return client


class Failing:
    """Objects of moto. Every request whose number is a multiple of `every` fails, unless `every` is 0.

    Such a request is answered 503 and has no effect; with `late` it takes effect, and the answer is 500.
    """

    def __init__(self) -> None:
        self.every, self.late = 0, False
        self.asked, self.failed = 0, 0
        self.url = ""
        self._objects = DomainDispatcherApplication(create_backend_app)
        self._counting = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        fails = self._fails()
        if fails and not self.late:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            return _refused(start_response, "503 Slow Down", "SlowDown")
        chunks, status, headers = run_wsgi_app(self._objects, environ, buffered=True)
        if fails:
            return _refused(start_response, "500 Internal Server Error", "InternalError")
        start_response(status, list(headers))
        return [b"".join(chunks)]

    def _fails(self) -> bool:
        with self._counting:
            self.asked += 1
            fails = bool(self.every) and self.asked % self.every == 0
            self.failed += fails
            return fails


def _refused(start_response: Callable[..., Any], status: str, code: str) -> list[bytes]:
    body = _ERROR.format(code=code).encode()
    start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


@contextmanager
def failing() -> Iterator[Failing]:
    objects = Failing()
    server = make_server("127.0.0.1", 0, objects, threaded=True)
    objects.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield objects
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
