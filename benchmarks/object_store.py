"""A server with the interface of S3, in a process of its own, which counts requests and can be as slow as a real store.

    python -m benchmarks.object_store FOLDER MILLISECONDS

It writes its port to FOLDER/port, and a line for each request to FOLDER/requests. Each answer waits MILLISECONDS: the
first byte of a real store takes some tens of them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, ThreadedMotoServer

BUCKET = "lake"
KEY, SECRET = "AKTEST", "hidden"
STARTING = 60.0


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A store that runs: where it is, and what it was asked."""

    folder: Path

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{(self.folder / 'port').read_text()}"

    @property
    def options(self) -> dict[str, str]:
        """The options of a catalog with its warehouse in this store."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key": KEY,
            "s3.secret-key": SECRET,
            "s3.path.style.access": "true",
        }

    @property
    def requests(self) -> list[str]:
        """All requests so far: a verb and a path each."""
        return (self.folder / "requests").read_text().splitlines()


@contextmanager
def running(folder: Path, milliseconds: int) -> Iterator[ObjectStore]:
    """Run a store with an empty bucket until the block ends."""
    folder.mkdir(parents=True)
    store = ObjectStore(folder)
    command = [sys.executable, "-m", "benchmarks.object_store", str(folder), str(milliseconds)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        latest = time.monotonic() + STARTING
        while not (folder / "port").exists():
            if process.poll() is not None or time.monotonic() > latest:
                raise TimeoutError(f"the object store did not start within {STARTING:g} s")
            time.sleep(0.1)
        client = boto3.client(
            "s3",
            endpoint_url=store.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=BUCKET)
        yield store
    finally:
        process.terminate()
        process.wait(30)


def serve(folder: Path, seconds: float) -> None:
    """Serve requests until this process is ended."""
    answer = DomainDispatcherApplication.__call__
    with (folder / "requests").open("a", buffering=1) as log:

        def slow(app: Any, environ: dict[str, str], start: Any) -> Iterable[bytes]:
            log.write(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}\n")
            time.sleep(seconds)
            return answer(app, environ, start)

        DomainDispatcherApplication.__call__ = slow
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        written = folder / "port.new"
        written.write_text(f"{server.get_host_and_port()[1]}")
        written.rename(folder / "port")
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]) / 1000)
