"""The status page in a real browser: what it shows of a pipeline that has run, and what the picture holds."""

from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.observers import observed
from penstock.pipelines.monitor.run_monitor import RunMonitor
from tests.here import run
from tests.shop import Shop, insert

pytestmark = pytest.mark.browser


class Nobody:
    def stop(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def lag(self, offsets: object) -> dict[str, int]:
        return {}


def browsed(url: str, *words: str) -> str:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", *words, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
    return done.stdout


def test_the_page_shows_tables_changes_and_errors_without_running_scripts_in_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(tmp_path)
    observe = {"metrics": "127.0.0.1:0"}
    spec: PipelineSpec = shop.spec(observe=observe)
    watch = RunMonitor("shop", CheckpointFolder(spec.checkpoint), shop.warehouse, Nobody(), Nobody(), 1.0)
    caplog.set_level("INFO", logger="penstock")
    shop.put("1.json", *(insert("orders", {"id": number, "name": "a"}) for number in range(50)))
    with observed(spec, watch), watch:
        run(spec, on_batch=watch.on_batch)
        shop.put("2.json", insert("orders", {"id": 99, "q1": 7}), insert("<img src=x onerror=alert(1)>", {"id": 1}))
        run(spec, on_batch=watch.on_batch)
        (line,) = [record.getMessage() for record in caplog.records if "event=serving" in record.getMessage()]
        url = f"http://127.0.0.1:{line.partition('port=')[2].split()[0]}/"
        dom = browsed(url, "--dump-dom")
        picture = tmp_path / "page.png"
        browsed(url, f"--screenshot={picture}", "--window-size=1000,700")
    assert 'data-ready="yes"' in dom
    assert "<td>ods.orders</td>" in dom
    assert "ods.orders: schema 1" in dom
    assert "<img" not in dom
    width, height, colours = seen(picture)
    assert (width, height) == (1000, 700)
    assert colours > 20, "the picture is empty"


def seen(picture: Path) -> tuple[int, int, int]:
    """Width, height, and how many different bytes stand in the picture's lines: an empty page has next to none."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    place, packed = 8, b""
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += length + 12
    return width, height, len(set(zlib.decompress(packed)))
