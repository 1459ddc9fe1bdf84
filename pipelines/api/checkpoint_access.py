"""Checks before a run that its checkpoint can be written, by this process and by Spark."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.pipelines.config.model import PipelineSpec
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


def check_checkpoint_store(spec: PipelineSpec, settings: Mapping[str, str]) -> None:
    """Raise ConfigError that names the missing jar when Spark lacks the client for the checkpoint's store."""
    from penstock.pipelines.spark.hadoop import checkpoint_needs, checkpoint_url
    from penstock.pipelines.spark.session import SUBMITTED

    if SUBMITTED in os.environ:  # jars of spark-submit are not visible here
        return
    packages = settings.get("spark.jars.packages", "") + settings.get("spark.jars", "")
    needed = checkpoint_needs(checkpoint_url(spec.checkpoint), packages)
    if needed is not None:
        raise ConfigError(
            "Spark has no client for the checkpoint's file system",
            checkpoint=spec.checkpoint,
            needs=needed.package,
            hint=needed.fix,
        )
