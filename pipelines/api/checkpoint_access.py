"""The check before a run that its checkpoint can be written."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder


def check_checkpoint_writable(folder: CheckpointFolder) -> None:
    """Raise ConfigError when the checkpoint cannot be written to; Spark would report it as a Java exception."""
    try:
        folder.probe()
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}:
            raise
        raise ConfigError(
            "the checkpoint folder is not writable",
            checkpoint=folder.location,
            reason=error.strerror,
            hint="grant this user write access to the folder, or choose another one with --checkpoint",
        ) from error
