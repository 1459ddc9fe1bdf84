"""Access to HDFS for source folders and source state: the same client as the tables use.

pyarrow's HDFS client is Hadoop's C library, which needs a complete Hadoop installation on each node.
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
    raise ConfigError("HDFS needs its client", hint="pip install hdfs-native fsspec") from error


class _Files(HdfsFileSystem):
    # fsspec clears its cache in every forked child before the child executes another program: destroying the client
    # would wait there for threads that exist only in the parent, and the parent would wait for its child.
    cachable = False

    def _convert_file_status(self, file_status: Any) -> dict[str, Any]:
        told: dict[str, Any] = super()._convert_file_status(file_status)
        return told | {"mtime": file_status.modification_time / 1000}  # the name that pyarrow expects


def hdfs_files(location: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of `hdfs://host:port/path` or `hdfs://nameservice/path`, and the path in it."""
    url = urlsplit(location)
    return _files(url.hostname, url.port, os.getpid()), url.path.rstrip("/") or "/"


@functools.cache
def _files(host: str | None, port: int | None, process: int) -> fs.FileSystem:
    """Return the client, created once per process as the tables' client is, and kept for the life of the process."""
    return fs.PyFileSystem(fs.FSSpecHandler(_Files(host, port)))
