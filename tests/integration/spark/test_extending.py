"""The package that docs/extending.md builds, installed by pip, with a feed on this machine and the page's commands."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

import penstock
from tests.pages import ROOT, Block, blocks

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = ROOT / "docs" / "extending.md"


def message(op: str, **row: object) -> str:
    return json.dumps({"table": "shop.orders", "key": ["id"], "op": op, "row": row})


@contextmanager
def feed(messages: list[str]) -> Iterator[str]:
    """Serve the messages as the page describes, and yield the server's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            first, last = int(query["from"][0]), int(query["to"][0])
            body = json.dumps({"end": len(messages), "messages": messages[first:last]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # the name in the base class
            """Keep the test's output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def installed(folder: Path, address: str) -> None:
    """Write the files of the page and install its package, as pip does, into the folder `site`."""
    for block in blocks(PAGE):
        if block.note.startswith("file="):
            text = block.text.replace("127.0.0.1:8000", address)
            (folder / block.note.removeprefix("file=")).write_text(text, encoding="utf-8")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--target", "site"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, "."], cwd=folder, check=True, timeout=500)


def commands(beginning: str) -> list[tuple[str, str]]:
    """Return the commands of one block of the page, with the output that it shows."""
    found: list[Block] = [item for item in blocks(PAGE) if item.text.startswith(f"$ penstock {beginning}")]
    (block,) = found
    parts = (part.partition("\n") for part in block.text.split("$ penstock ")[1:])
    return [(command, shown) for command, _, shown in parts]


def run(folder: Path, command: str, *, code: int = 0) -> str:
    path = os.pathsep.join(filter(None, [str(folder / "site"), str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", *command.split()],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr[-3000:]
    return done.stdout + (done.stderr if code else "")


def ids(folder: Path, name: str = "orders") -> dict[str, str]:
    table = penstock.open_table(str(folder / "warehouse" / "ods.db" / name))
    return {row["id"]: row["status"] for row in table.scan().to_arrow().to_pylist()}


def test_source_and_format_of_a_package_work_in_a_pipeline_file(tmp_path: Path) -> None:
    messages = [message("put", id=number, status="new") for number in range(3)]
    with feed(messages) as address:
        installed(tmp_path, address)
        for command, shown in commands("check"):
            output = run(tmp_path, command)
            assert doctest.OutputChecker().check_output(shown, output, doctest.ELLIPSIS) or not shown, output
        assert ids(tmp_path) == {"0": "new", "1": "new", "2": "new"}
        messages += [message("del", id=0), message("put", id=1, status="paid"), "no JSON"]
        text = (tmp_path / "feed.yaml").read_text()
        (tmp_path / "feed.yaml").write_text(f"{text}errors: {{bad-record: skip}}\n")
        run(tmp_path, "run feed.yaml --until-caught-up")
        assert ids(tmp_path) == {"1": "paid", "2": "new"}


def test_action_of_a_package_runs_a_pipeline_by_flags_alone(tmp_path: Path) -> None:
    with feed([message("put", id=number, status="new") for number in range(3)]) as address:
        installed(tmp_path, address)
        ((command, _),) = commands("http-feed-sync-table")
        run(tmp_path, command.replace("127.0.0.1:8000", address))
        assert ids(tmp_path, "copy") == {"0": "new", "1": "new", "2": "new"}


def test_actions_of_a_package_are_commands_with_flags_help_and_hints(tmp_path: Path) -> None:
    installed(tmp_path, "127.0.0.1:1")
    assert re.search(
        "http-feed-sync-database +write an HTTP feed to one table per source table", run(tmp_path, "--help")
    )
    shown = run(tmp_path, "http-feed-sync-table --help")
    assert "--feed-conf K=V" in shown
    assert "--feed-conf url=http://feed:8000/changes" in shown
    least = "--warehouse w --database ods --table t --feed-conf url=http://127.0.0.1:1/x"
    assert "`value.format` is missing" in run(tmp_path, f"http-feed-sync-table {least}", code=2)
    flags = f"{least} --feed-conf value.format=acme-json"
    assert "pipeline ods.t" in run(tmp_path, f"init http-feed-sync-table {flags}")
    assert "type: http-feed" in (tmp_path / "pipeline.yaml").read_text()
    assert "the feed does not answer" in run(tmp_path, f"check http-feed-sync-table {flags}", code=3)
    output = run(tmp_path, "http-fed-sync-table --help", code=2)
    assert "unknown command" in output


def test_unknown_type_names_the_types_of_packages_too(tmp_path: Path) -> None:
    installed(tmp_path, "127.0.0.1:1")
    feed_file = tmp_path / "feed.yaml"
    feed_file.write_text(feed_file.read_text().replace("type: http-feed", "type: http-fed"))
    output = run(tmp_path, "check feed.yaml", code=2)
    assert "unknown source type 'http-fed'" in output
    assert (
        "did you mean http-feed? the types are kafka, files, mysql, postgres, pulsar, mongodb, table and http-feed"
        in output
    )
    feed_file.write_text(feed_file.read_text().replace("http-fed", "http-feed").replace("url:", "ulr:"))
    assert "did you mean url?" in run(tmp_path, "check feed.yaml", code=2)
