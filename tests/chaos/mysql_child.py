"""A run of a MySQL pipeline that kills itself: `python -m tests.chaos.mysql_child WORDS KILL`.

KILL is `module:attribute:before|after:n`: SIGKILL at the n-th call of a function, before it or behind it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any

from tests.here import run
from tests.sync_flags import spec_of_action


def plant(kill: str) -> None:
    module, path, when, number = kill.split(":")
    owner: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    real = getattr(owner, name)
    calls = 0

    def killing(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        mine = calls  # tables commit side by side
        if when == "before" and mine == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*given, **named)
        if when == "after" and mine == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, name, killing)


def main() -> None:
    words, kill = json.loads(sys.argv[1]), sys.argv[2]
    plant(kill)
    action = "mysql-sync-table" if "--table" in words else "mysql-sync-database"
    run(spec_of_action(action, words))


if __name__ == "__main__":
    main()
