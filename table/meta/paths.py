"""The paths of a table's files and folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.errors import ConfigError, TableCorrupt
from penstock.table.options.files import DATA_FILE_PATH_DIRECTORY, INDEX_FILE_IN_DATA_FILE_DIR
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.numbered_files import branch_folder
from penstock.table.values.names import path_step, relative_folder

# The bucket number in manifests of rows that wait for a bucket.
POSTPONE_BUCKET = -2
# No partition or bucket has such a name, so neither Penstock nor Java Paimon reads it as part of the table.
_STAGING_FOLDER = "_penstock_writes"
DATABASE_SUFFIX = ".db"
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//[^/]*)?(?P<path>/.*)")


def external(url: str | None) -> str | None:
    """Return the path of a file outside the table's folder (`data-file.external-paths`) from the URL in its metadata.

    Raise ConfigError for a URL of a store other than the local disk, because only the table's own store is open.
    """
    match = None if url is None else _URL.fullmatch(url)
    if match is None:
        return url
    if match["scheme"].lower() != "file":
        raise ConfigError(
            "files outside of the folder of the table can be read only on local disks",
            file=url,
            hint="read the table with the engine that wrote it, or clone it with that engine, without"
            " data-file.external-paths",
        )
    return match["path"]


@lru_cache(maxsize=1024)
def name_in_warehouse(path: str) -> str | None:
    """Return `database.table` for the path `.../database.db/table`; None for paths of another form."""
    folder, _, table = path.rstrip("/").rpartition("/")
    database = folder.rpartition("/")[2]
    return f"{database.removesuffix(DATABASE_SUFFIX)}.{table}" if database.endswith(DATABASE_SUFFIX) else None


@dataclass(frozen=True, slots=True)
class TablePaths:
    """The paths of one table, or of one of its branches.

    Each branch has separate schemas, snapshots, tags, consumers and long-lived changelogs. Manifests, indexes,
    statistics and data files of all branches share the table's folders.
    """

    root: str
    branch: str | None = None
    data_folder: str | None = None  # option data-file.path-directory
    indexes_beside_data: bool = False  # option index-file-in-data-file-dir

    @classmethod
    def of(cls, root: str, options: Mapping[str, str], branch: str | None = None) -> TablePaths:
        typed = TableOptions(options)
        folder = relative_folder(typed[DATA_FILE_PATH_DIRECTORY] or "", DATA_FILE_PATH_DIRECTORY.key)
        return cls(root.rstrip("/"), branch, folder, typed[INDEX_FILE_IN_DATA_FILE_DIR])

    @property
    def branch_root(self) -> str:
        return branch_folder(self.root, self.branch)

    @property
    def data_root(self) -> str:
        return f"{self.root}/{self.data_folder}" if self.data_folder else self.root

    @property
    def staging_folder(self) -> str:
        """The folder in which each Spark job has a folder for rows that its tasks leave to the committing process."""
        return f"{self.root}/{_STAGING_FOLDER}"

    @property
    def schema_folder(self) -> str:
        return f"{self.branch_root}/schema"

    @property
    def snapshot_folder(self) -> str:
        return f"{self.branch_root}/snapshot"

    @property
    def changelog_folder(self) -> str:
        return f"{self.branch_root}/changelog"

    @property
    def tag_folder(self) -> str:
        return f"{self.branch_root}/tag"

    @property
    def consumer_folder(self) -> str:
        return f"{self.branch_root}/consumer"

    @property
    def branches_folder(self) -> str:
        return f"{self.root}/branch"

    @property
    def manifest_folder(self) -> str:
        return f"{self.root}/manifest"

    @property
    def index_folder(self) -> str:
        return f"{self.root}/index"

    @property
    def statistics_folder(self) -> str:
        return f"{self.root}/statistics"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_folder}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_folder}/snapshot-{snapshot_id}"

    def changelog(self, snapshot_id: int) -> str:
        return f"{self.changelog_folder}/changelog-{snapshot_id}"

    def tag(self, name: str) -> str:
        return f"{self.tag_folder}/tag-{path_step(name, 'tag', table=self.root)}"

    def consumer(self, consumer_id: str) -> str:
        return f"{self.consumer_folder}/consumer-{path_step(consumer_id, 'consumer', table=self.root)}"

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.manifest_folder}/{_file(name)}"

    def statistics(self, name: str) -> str:
        return f"{self.statistics_folder}/{_file(name)}"

    def bucket_dir(self, partition_path: str, bucket: int) -> str:
        """Return the folder of a bucket.

        `partition_path` has the form `a=1/b=2` and is empty for an unpartitioned table.
        """
        folder = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        return "/".join(part for part in (self.data_root, partition_path, folder) if part)

    def index_file(self, name: str, partition_path: str, bucket: int) -> str:
        folder = self.bucket_dir(partition_path, bucket) if self.indexes_beside_data else self.index_folder
        return f"{folder}/{_file(name)}"


def _file(name: str) -> str:
    """Return a file name found in the table's metadata. Raise TableCorrupt when it would lead outside its folder."""
    # Another program may have written the metadata, and expiry deletes files by these names.
    if "/" in name or "\0" in name or name in {"", ".", ".."}:
        raise TableCorrupt(
            "a metadata file of the table names a file outside of the folder of the table", name=repr(name[:200])
        )
    return name
