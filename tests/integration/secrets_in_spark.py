"""A pipeline with Spark whose secrets are plain values, and the places that have them then: there must be none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.waiting import ended

HUSH = "hush-hush-7391"
ROOT = Path(__file__).resolve().parents[2]
SINK = """
pipeline: {name: p, spark: always, checkpoint: CHECKPOINT}
sink:
  catalog: {warehouse: WAREHOUSE, CATALOG}
  database: ods
"""
KEYS = "options: {s3.access-key: AK, s3.secret-key: HUSH, s3.session.token: HUSH}"


def listed_with_secrets(run: subprocess.Popen[str], found: set[str]) -> None:
    """Add the command lines with secrets that the list of processes has until the run ends."""
    while run.poll() is None:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has ended
                words = entry.read_bytes()
                if HUSH.encode() in words:
                    found.add("process " + words.replace(b"\0", b" ").decode(errors="replace")[:300])
        time.sleep(0.05)


def places_with_secrets(source: str, folder: Path, catalog: str = KEYS, warehouse: str | None = None) -> list[str]:
    """Run the pipeline once; return where secrets are: in its files, its lines and the list of processes.

    The files are those of its event log, its checkpoint, its tables and what else is in the folder. The warehouse is in
    it, unless another one is given.
    """
    (folder / "conf").mkdir()
    (folder / "events").mkdir()
    (folder / "conf/spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file://{folder}/events\nspark.eventLog.compress false\n"
    )
    text = (source + SINK).replace("CATALOG", catalog).replace("HUSH", HUSH)
    text = text.replace("WAREHOUSE", warehouse or f"{folder}/warehouse")
    file = folder / "p.yaml"
    file.write_text(text.replace("CHECKPOINT", f"{folder}/checkpoint"))
    words = [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", "run", str(file)]
    listed: set[str] = set()
    with subprocess.Popen(
        [*words, "--until-caught-up"],
        cwd=ROOT,
        env={**os.environ, "SPARK_CONF_DIR": f"{folder}/conf"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        watching = threading.Thread(target=listed_with_secrets, args=(run, listed))
        watching.start()
        output, errors = run.communicate()
        ended(watching)
    assert run.returncode == 0, errors[-3000:]
    files = {place: place.read_bytes() for place in folder.rglob("*") if place.is_file() and place != file}
    assert any(b"SparkListenerSQLExecutionStart" in content for content in files.values())
    found = [str(place.relative_to(folder)) for place, content in files.items() if HUSH.encode() in content]
    return found + sorted(listed) + [line for line in (output + errors).splitlines() if HUSH in line]
