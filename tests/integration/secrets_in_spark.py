"""A pipeline with Spark whose secrets are plain values, and the places that have them then: there must be none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HUSH = "hush-hush-7391"
ROOT = Path(__file__).resolve().parents[2]
SINK = """
pipeline: {name: p, spark: always, checkpoint: CHECKPOINT}
sink:
  catalog: {warehouse: WAREHOUSE, options: {s3.access-key: AK, s3.secret-key: HUSH, s3.session.token: HUSH}}
  database: ods
"""


def places_with_secrets(source: str, folder: Path) -> list[str]:
    """Run the pipeline once; return the files of its event log, checkpoint and tables, and its lines, with secrets."""
    (folder / "conf").mkdir()
    (folder / "events").mkdir()
    (folder / "conf/spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file://{folder}/events\nspark.eventLog.compress false\n"
    )
    text = (source + SINK).replace("HUSH", HUSH).replace("WAREHOUSE", f"{folder}/warehouse")
    file = folder / "p.yaml"
    file.write_text(text.replace("CHECKPOINT", f"{folder}/checkpoint"))
    words = [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", "run", str(file)]
    done = subprocess.run(
        [*words, "--until-caught-up"],
        cwd=ROOT,
        env={**os.environ, "SPARK_CONF_DIR": f"{folder}/conf"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    files = {place: place.read_bytes() for place in folder.rglob("*") if place.is_file() and place != file}
    assert any(b"SparkListenerSQLExecutionStart" in content for content in files.values())
    found = [str(place.relative_to(folder)) for place, content in files.items() if HUSH.encode() in content]
    return found + [line for line in (done.stdout + done.stderr).splitlines() if HUSH in line]
