"""What a source keeps beside a checkpoint on HDFS, and folders there: the same client as the tables have.

pyarrow's own HDFS is Hadoop's C library, which wants a whole Hadoop installed on each node.
"""

from __future__ import annotations

import functools
import os
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from penstock.errors import ConfigError

try:
    from hdfs_native.fsspec import HdfsFileSystem
except ImportError as error:
    raise ConfigError("HDFS needs its client", hint="pip install 'penstock[hdfs]'") from error


class _Files(HdfsFileSystem):
    # fsspec empties its cache in every child of a fork, before it becomes another program: the client's end would
    # wait there for threads which stayed in the parent, and the parent for its child.
    cachable = False

    def _convert_file_status(self, file_status: Any) -> dict[str, Any]:
        told: dict[str, Any] = super()._convert_file_status(file_status)
        return told | {"mtime": file_status.modification_time / 1000}  # the name pyarrow asks for


def hdfs_files(location: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it of `hdfs://host:port/path` or `hdfs://nameservice/path`."""
    url = urlsplit(location)
    return _files(url.hostname, url.port, os.getpid()), url.path.rstrip("/") or "/"


@functools.cache
def _files(host: str | None, port: int | None, process: int) -> fs.FileSystem:
    """Made once a process, as the tables' client is, and kept as long as it lives."""
    return fs.PyFileSystem(fs.FSSpecHandler(_Files(host, port)))
