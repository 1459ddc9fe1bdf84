"""A pipeline file that runs, or whose dead letters are replayed, in a process that kills itself.

    python -m tests.chaos.shop_child run|replay FILE KILL

KILL is that of tests/chaos/mysql_child.py, or `none`. Each batch that is reported becomes a line of `reports.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.pipelines.commands.main import main as command
from penstock.pipelines.config.load import parsed
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.chaos.mysql_child import plant
from tests.here import run


def main() -> int:
    verb, file, kill = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    if kill != "none":
        plant(kill)
    if verb == "replay":
        return command(["dlq", str(file), "replay"])

    def note(identity: BatchIdentity, report: BatchReport) -> None:
        with file.with_name("reports.json").open("a") as lines:
            lines.write(json.dumps([identity.number, dict(report.passed_over)]) + "\n")

    run(parsed(json.loads(file.read_text())), on_batch=note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
