"""The number of plays of a run, for the summary of a night."""

from __future__ import annotations

import os
from pathlib import Path


def count_play() -> None:
    """Add one to the plays in the file PENSTOCK_PLAYS_LOG, if there is such a variable."""
    log = os.environ.get("PENSTOCK_PLAYS_LOG")
    if log:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write("1\n")
