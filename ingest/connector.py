"""The contract between a kind of source and the pipelines that read from it.

A connector is one object. It has the name that users write as `source: {type: ...}`, the model of that section, the
capabilities of its sources, and methods that check, describe, prepare and open one. Pipelines ask the connector and
its capabilities, and never test for a type. A package adds a connector by an entry point of the group
`penstock.connectors`; docs/extending.md builds one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from penstock.errors import ConfigError
from penstock.ingest.connector_answers import Sampler, SourceCheck, SourceFinding, TableCapture
from penstock.ingest.connector_requests import (
    Keyless,
    KeylessRule,
    Preparation,
    SourceRequest,
    TableName,
    TableSelection,
)
from penstock.ingest.source import Offsets
from penstock.settings import Strict

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.ingest.decoded_source import ChangeSource
    from penstock.ingest.source import ComparableSource
    from penstock.ingest.source_draft import DraftOptions, SourceDraft
    from penstock.ingest.sync_actions import TranslatedSource

# Packages with connectors of their own import the whole contract from this module.
__all__ = [
    "BYTES",
    "DESCRIBES",
    "ENTRIES",
    "LOG_BYTES",
    "LOG_SECONDS",
    "LOOK_SECONDS",
    "READS_FLINK_CDC",
    "RECORDS",
    "ROWS",
    "URL_SCHEMES",
    "WAL_BYTES",
    "Capabilities",
    "Connector",
    "Keyless",
    "KeylessRule",
    "LagUnit",
    "Preparation",
    "Sampler",
    "SourceCheck",
    "SourceConfig",
    "SourceFinding",
    "SourceRequest",
    "StartPlace",
    "TableCapture",
    "TableName",
    "TableSelection",
    "missing_method",
]

StartPlace: TypeAlias = Literal["earliest", "latest"] | int  # or milliseconds since 1970
# The unit as users see it. `bytes of the binlog` and `seconds of the oplog` are units of a log: the lag at the place
# `log` is measured, and the other places are tables that are still to be copied. Any other unit but `bytes` is a plural
# noun of what is counted.
LagUnit: TypeAlias = str

LOG_BYTES: LagUnit = "bytes of the binlog"
WAL_BYTES: LagUnit = "bytes of the WAL"
LOG_SECONDS: LagUnit = "seconds of the oplog"
BYTES: LagUnit = "bytes"
RECORDS: LagUnit = "records"
ENTRIES: LagUnit = "entries"  # of a log whose entries may contain several messages
ROWS: LagUnit = "rows"  # of tables
LOOK_SECONDS = 10.0
# Declarations of a connector that need a method, in the form in which errors show them.
DESCRIBES = "Capabilities(describes_tables=True)"
READS_FLINK_CDC = "Capabilities(reads_flink_cdc=True)"
URL_SCHEMES = "url_schemes"


class SourceConfig(Strict):
    """The section `source` of a pipeline file. A connector derives its own, with `type: Literal["its-name"]`."""

    type: str


C = TypeVar("C", bound=SourceConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities that all sources of one type have.

    `describes_tables`: the source lists its tables with their columns, so that target tables exist before the first
    batch; otherwise messages are sampled. `rereads_tables`: single tables can be emptied and read again;
    `rereads_at_start`: this is possible only when a run begins, not by a signal; `rereads_parts`: it is also possible
    for the rows that meet a condition. `names_rows`: each row comes with its database, table and time.
    `resumes_from_tables`: the offsets in a table's snapshots suffice to continue with a new checkpoint. `keeps_state`:
    the source needs `SourceRequest.state` in the next run. `reads_exactly`: the rows of a table can be read as of one
    position, so that no change in them comes again. `reads_flink_cdc`: files of Flink CDC may name this type.
    `lag_unit` is the unit of `Source.lag`. `numbers_messages`: messages have a number in their partition, the metadata
    column `offset`. `defers_ranges`: the source is a `DeferringSource`, so that tables may have a `freshness`.
    `passes_places`: later ranges have other places (files, positions of a log), so that no place delays the watermark.
    """

    describes_tables: bool = False
    rereads_tables: bool = False
    rereads_at_start: bool = False
    rereads_parts: bool = False
    names_rows: bool = False
    reads_flink_cdc: bool = False
    resumes_from_tables: bool = True
    keeps_state: bool = False
    reads_exactly: bool = False
    numbers_messages: bool = True
    defers_ranges: bool = False
    passes_places: bool = False
    lag_unit: LagUnit = RECORDS


class Connector(ABC, Generic[C]):
    """A kind of source. Each method gets the validated section and the pipeline's request.

    `references` are the keys of the section in which `${...}` remains a reference until it is used, because they
    contain secrets. `url_schemes` are the schemes of places for which `draft` writes a section, and `url_form` shows
    such a place, as in `kafka://host:9092/topic`. Methods after `open` have defaults that suit a source of messages.
    """

    name: ClassVar[str]
    config: type[C]
    capabilities: ClassVar[Capabilities] = Capabilities()
    references: ClassVar[frozenset[str]] = frozenset()
    url_schemes: ClassVar[frozenset[str]] = frozenset()
    url_form: ClassVar[str] = ""

    @abstractmethod
    def open(self, config: C, request: SourceRequest) -> ChangeSource:
        """Return the source as described, without connecting to its server."""

    def check(self, config: C, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        """Check the source, and describe its tables. Read-only.

        With `must`, no captured table is a ConfigError; a pipeline that resumes passes False.
        """
        source = self.open(config, request)
        try:
            source.available()
        finally:
            source.close()
        return SourceCheck(f"{self.name}: the source answers")

    def tables(self, config: C, request: SourceRequest, *, must: bool = True) -> list[SourceSchema]:
        """Return the tables to capture; SourceError if they cannot be captured. For sources that describe tables."""
        raise missing_method(self, "tables", declared=DESCRIBES)

    def undescribed(self, config: C, request: SourceRequest) -> Collection[TableName]:
        """Return captured tables that exist, but that `tables` may not describe because they have no rows yet."""
        return ()

    def capture(self, config: C, request: SourceRequest) -> TableCapture:
        """Return how tables are captured. For sources that describe tables."""
        raise missing_method(self, "capture", declared=DESCRIBES)

    def check_preparation(self, config: C, request: SourceRequest, preparation: Preparation) -> None:
        """Raise an error if the source cannot follow the decisions. `penstock check` calls it too."""

    def prepare(self, config: C, request: SourceRequest, preparation: Preparation) -> ChangeSource:
        """Return the source, ready for the first batch of a run; SourceError if a new pipeline cannot reach it."""
        return self.open(config, request)

    def sampler(self, config: C, request: SourceRequest) -> Sampler | None:
        """Return a sampler, from which target tables are created before the first batch; None to create them in it."""
        return None

    def message_format(self, config: C) -> str:
        """Return the format in which dead letters of this source are stored."""
        return "row-json"

    def database_of_schemas(self, config: C) -> str | None:
        """Return the database whose tables are named by schema and table; None for sources without schemas."""
        return None

    def has_old_rows(self, config: C) -> bool:
        """Return whether the source can return the old row of each update."""
        return True

    def key_only_deletes(
        self, config: C, request: SourceRequest, names: Collection[TableName]
    ) -> Mapping[TableName, str]:
        """Return those of the tables whose deletes contain only the key, each with a way to change that."""
        return {}

    def left_out(self, config: C, request: SourceRequest) -> Mapping[TableName, str]:
        """Return the selected tables that this kind of source cannot capture, and why."""
        return {}

    def estimates(self, config: C, request: SourceRequest) -> Mapping[TableName, int]:
        """Return the estimated number of rows of each table that the first snapshot reads."""
        return {}

    def resume_point(self, config: C, request: SourceRequest, reached: Offsets) -> str | None:
        """Return where the log continues after these offsets; PositionLost if it is gone, None if not applicable."""
        return None

    def comparable(self, config: C, request: SourceRequest) -> ComparableSource | None:
        """Return the source as one whose rows can be compared with tables, None if it keeps no rows."""
        return None

    def warnings(self, config: C) -> list[str]:
        """Return conditions of the source that may later stop a pipeline that runs well."""
        return []

    def kept_for(self, config: C, request: SourceRequest, seconds: float) -> list[SourceFinding]:
        """Return a warning for each part of the source that may lose records before they are this old.

        For sources that defer ranges; they do not raise an error if the server does not say it.
        """
        return []

    def readers(self, config: C) -> int | None:
        """Return the maximum number of tasks that read at once, None for as many as there are."""
        return None

    def look_seconds(self, config: C) -> float:
        """Return the seconds between two looks at the source's lag."""
        return LOOK_SECONDS

    def keyless(self, config: C) -> KeylessRule:
        """Return how tables without a key are treated if the sink does not say."""
        return "append"

    def starting_at(self, config: C, place: StartPlace) -> C:
        """Return the section for a new checkpoint that begins at this place."""
        raise ConfigError(f"a source of type {self.name} always starts with the existing data", hint="remove --from")

    def draft(self, place: str, options: DraftOptions) -> SourceDraft:
        """Return a first section for the source at this place. Called for places with one of the `url_schemes`."""
        raise missing_method(self, "draft", declared=URL_SCHEMES)

    def from_flink_cdc(self, section: Mapping[str, Any]) -> TranslatedSource:
        """Return the source of a Flink CDC file of the same type."""
        raise missing_method(self, "from_flink_cdc", declared=READS_FLINK_CDC)


def missing_method(connector: Connector[Any], method: str, declared: str) -> ConfigError:
    """Return the error for a connector whose class lacks a method that something it declares needs."""
    kind = type(connector)
    return ConfigError(
        f"the connector {connector.name} does not implement `{method}`, which {declared} needs",
        connector=f"{kind.__module__}.{kind.__qualname__}",
        hint=f"define {method}() in {kind.__qualname__}, or do not declare {declared}",
    )
