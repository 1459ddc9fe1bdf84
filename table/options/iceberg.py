"""Options of the Iceberg metadata that is written beside a table."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, TableOption, acts, refused, reported
from penstock.table.options.kinds import COUNT, FLAG, POSITIVE, TEXT, WHOLE, Kind, one_of

_NO_SERVICE = (
    "leave it out: metadata is written as files, and registered in a Hive metastore by hive-catalog, or in an Iceberg"
    " REST catalog by rest-catalog"
)
_NO_SETTING = "leave it out: only the settings of metadata.iceberg.rest. that are listed here have an effect"

ICEBERG_STORAGE = acts(
    "metadata.iceberg.storage",
    one_of("disabled", "table-location", "hadoop-catalog", "hive-catalog", "rest-catalog"),
    "disabled",
    "Writes Iceberg metadata after each snapshot, into the folder of the table (`table-location`) or into"
    " `WAREHOUSE/iceberg` (`hadoop-catalog`). `hive-catalog` also registers it in a Hive metastore,"
    " `rest-catalog` in an Iceberg REST catalog.",
    scope=Scope.ICEBERG,
)
ICEBERG_STORAGE_LOCATION = acts(
    "metadata.iceberg.storage-location",
    one_of("table-location", "catalog-location"),
    None,
    "The location of the Iceberg metadata: in the folder of the table, or in `WAREHOUSE/iceberg`. By default"
    " metadata.iceberg.storage decides.",
    scope=Scope.ICEBERG,
)
ICEBERG_FORMAT_VERSION = acts(
    "metadata.iceberg.format-version",
    WHOLE.within(least=2, most=3),
    "2",
    "The version of Iceberg's format, 2 or 3. Deletion vectors need 3.",
    scope=Scope.ICEBERG,
)
ICEBERG_COMPACTION_MIN_FILE_NUM = acts(
    "metadata.iceberg.compaction.min.file-num",
    POSITIVE,
    "10",
    "The number of small Iceberg manifests from which they are merged, if they are large enough together.",
    scope=Scope.ICEBERG,
)
ICEBERG_COMPACTION_MAX_FILE_NUM = acts(
    "metadata.iceberg.compaction.max.file-num",
    POSITIVE,
    "50",
    "The number of small Iceberg manifests at which they are merged in any case.",
    scope=Scope.ICEBERG,
)
ICEBERG_DELETE_AFTER_COMMIT = acts(
    "metadata.iceberg.delete-after-commit.enabled",
    FLAG,
    "true",
    "Deletes old versions of the file metadata.json after each commit.",
    scope=Scope.ICEBERG,
)
ICEBERG_PREVIOUS_VERSIONS_MAX = acts(
    "metadata.iceberg.previous-versions-max",
    COUNT,
    "0",
    "The number of old versions of the file metadata.json that are kept.",
    scope=Scope.ICEBERG,
)
ICEBERG_MANIFEST_COMPRESSION = acts(
    "metadata.iceberg.manifest-compression",
    TEXT,
    "snappy",
    "The compression of Iceberg manifests: `snappy`, `gzip`, `zstd` or `none`.",
    scope=Scope.ICEBERG,
)
ICEBERG_MANIFEST_LEGACY_VERSION = acts(
    "metadata.iceberg.manifest-legacy-version",
    FLAG,
    "false",
    "Names the fields of manifest lists as Iceberg 1.4 did, for readers such as AWS Athena.",
    scope=Scope.ICEBERG,
)
ICEBERG_URI = acts(
    "metadata.iceberg.uri",
    TEXT,
    None,
    "The address of the Hive metastore of `hive-catalog`, such as `thrift://host:9083`.",
    scope=Scope.ICEBERG,
)
ICEBERG_DATABASE = acts(
    "metadata.iceberg.database",
    TEXT,
    None,
    "Names the database in the catalog of `hive-catalog` or `rest-catalog`. By default, the table's own database.",
    scope=Scope.ICEBERG,
)
ICEBERG_TABLE = acts(
    "metadata.iceberg.table",
    TEXT,
    None,
    "Names the table in the catalog of `hive-catalog` or `rest-catalog`. By default, the table's own name.",
    scope=Scope.ICEBERG,
)
ICEBERG_REST_URI = acts(
    "metadata.iceberg.rest.uri",
    TEXT,
    None,
    "The address of the Iceberg REST catalog of `rest-catalog`, such as `https://host/path`.",
    scope=Scope.ICEBERG,
)


def _of_rest(name: str, meaning: str) -> TableOption[str | None]:
    return acts(f"metadata.iceberg.rest.{name}", TEXT, None, meaning, scope=Scope.ICEBERG)


# What the client of the catalog receives, under the last part of the key.
ICEBERG_REST = (
    _of_rest("warehouse", "The catalog within the server of `rest-catalog`, if it has several."),
    _of_rest("prefix", "The first part of the paths of the server's requests. By default, the server names it."),
    _of_rest("token", "The bearer token for the server. Write a reference: `${NAME}` or `${file:/path}`."),
    _of_rest(
        "credential",
        "The `client:secret` for which the server issues a token by OAuth 2. Write a reference: `${NAME}`.",
    ),
    _of_rest("scope", "The scope of that token. By default `catalog`."),
    _of_rest("oauth2-server-uri", "The address that issues the token. By default, the catalog's own."),
)


def _of_service(name: str, kind: Kind[object], default: str | None, meaning: str) -> TableOption[object]:
    return refused(f"metadata.iceberg.{name}", kind, default, meaning, _NO_SERVICE, scope=Scope.ICEBERG)


OPTIONS: tuple[TableOption[object], ...] = (
    ICEBERG_STORAGE,
    ICEBERG_STORAGE_LOCATION,
    ICEBERG_FORMAT_VERSION,
    ICEBERG_COMPACTION_MIN_FILE_NUM,
    ICEBERG_COMPACTION_MAX_FILE_NUM,
    ICEBERG_DELETE_AFTER_COMMIT,
    ICEBERG_PREVIOUS_VERSIONS_MAX,
    ICEBERG_MANIFEST_COMPRESSION,
    ICEBERG_MANIFEST_LEGACY_VERSION,
    ICEBERG_URI,
    ICEBERG_DATABASE,
    ICEBERG_TABLE,
    _of_service("hive-conf-dir", TEXT, None, "The folder with Hive's configuration."),
    _of_service("hadoop-conf-dir", TEXT, None, "The folder with Hadoop's configuration."),
    _of_service("hive-client-class", TEXT, None, "The class of the metastore's client."),
    _of_service("glue.skip-archive", FLAG, "false", "Keeps no old versions in AWS Glue."),
    reported(
        "metadata.iceberg.hive-skip-update-stats",
        FLAG,
        "false",
        "Keeps no statistics in Hive.",
        "no statistics are computed in Hive, whatever its value",
        scope=Scope.ICEBERG,
    ),
    ICEBERG_REST_URI,
    *ICEBERG_REST,
    reported(
        "metadata.iceberg.rest.clients",
        TEXT,
        None,
        "The number of connections of Java's client.",
        "each request makes a new connection",
        scope=Scope.ICEBERG,
    ),
    refused(
        "metadata.iceberg.rest.<name>",
        TEXT,
        None,
        "Another option of Java's client of REST catalogs.",
        _NO_SETTING,
        scope=Scope.ICEBERG,
    ),
)
