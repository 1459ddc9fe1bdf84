"""The process of a driver: whether it still runs, where that can be seen from this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def is_alive(pid: int) -> bool:
    """Return whether the process runs. One that has ended and that its parent has not waited for yet does not."""
    with suppress(OSError):
        # The name of a process may contain anything, parentheses too.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def has_ended(driver: Mapping[str, Any]) -> bool:
    """Return whether the driver that wrote this status ran on this machine and its process is gone."""
    pid = int(driver.get("pid", 0))
    return pid != 0 and driver.get("host") == socket.gethostname() and not is_alive(pid)
