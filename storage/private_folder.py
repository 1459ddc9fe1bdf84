"""Local folders that only their owner can read, for rows of a private warehouse that are kept on disk for a while."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import stat
import tempfile
from functools import lru_cache
from pathlib import Path

log = logging.getLogger(__name__)

_OTHERS, _OTHERS_WRITE = 0o077, 0o022


def private_folder(name: str = "") -> Path:
    """Return a folder below the temporary folder that all processes of this user share, and create it if it is missing.

    The folder's name can be guessed. If another user created it first, or if it is a link, this process gets a separate
    folder, which is deleted when the process ends.
    """
    home = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    if not _is_ours(home):
        home = _own(str(home))
    if not name:
        return home
    return home / name if _is_ours(home / name) else _own(str(home / name))


def _is_ours(folder: Path) -> bool:
    """Create the folder if it is missing, deny access to others, and return whether this user owns it."""
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        pass
    # lstat, because a link could lead to a folder that another user chose.
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    # Before it is emptied: afterwards other users could add files again.
    if status.st_mode & _OTHERS:
        folder.chmod(0o700)
    if status.st_mode & _OTHERS_WRITE:
        _empty(folder)  # other users may have written files into it
    return True


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


# Cached, so that a process has one such folder for each name.
@lru_cache
def _own(instead_of: str) -> Path:
    log.warning(
        "event=folder_of_another_user path=%s hint=remove the folder, or set TMPDIR to a folder that belongs to"
        " you; until"
        " then processes do not share caches on disk",
        instead_of,
    )
    # mkdtemp chooses a name that nobody can guess and denies access to other users.
    made = Path(tempfile.mkdtemp(prefix="penstock-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
