"""The contract between a kind of source and the pipelines that read from it.

A connector is one object. It has the name that users write as `source: {type: ...}`, the model of that section, the
capabilities of its sources, and methods that check, describe, prepare and open one. Pipelines ask the connector and
its capabilities, and never test for a type. A package adds a connector by an entry point of the group
`penstock.connectors`; docs/extending.md builds one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from penstock.errors import ConfigError
from penstock.ingest.source import Offsets, Range
from penstock.settings import Strict
from penstock.storage.state_folder import StateFolder

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.formats.demand import ConditionLanguage, DemandPolicy
    from penstock.ingest.decoded_source import ChangeSource, Extra
    from penstock.ingest.source import ComparableSource
    from penstock.ingest.source_draft import DraftOptions, SourceDraft
    from penstock.ingest.sync_actions import TranslatedSource

TableName: TypeAlias = tuple[str, str]  # database and table
Keyless: TypeAlias = Literal["leave-out", "append", "fail"]
# As the messages state: left out if they say that the table has no key, appended if they say nothing about keys.
KeylessRule: TypeAlias = Literal["leave-out", "append", "fail", "as-stated"]
StartPlace: TypeAlias = Literal["earliest", "latest"] | int  # or milliseconds since 1970
LagUnit: TypeAlias = Literal[
    "bytes of the binlog", "bytes of the WAL", "seconds of the oplog", "bytes", "records", "entries", "rows"
]

LOG_BYTES: LagUnit = "bytes of the binlog"
WAL_BYTES: LagUnit = "bytes of the WAL"
LOG_SECONDS: LagUnit = "seconds of the oplog"
BYTES: LagUnit = "bytes"
RECORDS: LagUnit = "records"
ENTRIES: LagUnit = "entries"  # of a log whose entries may contain several messages
ROWS: LagUnit = "rows"  # of tables
LOOK_SECONDS = 10.0
# What a connector may declare, as errors show it, and what each of them needs.
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
    batch; otherwise messages are sampled. `rereads_tables`: single tables can be emptied and read again, with
    `rereads_at_start` only when a run begins and not by a signal, with `rereads_parts` also only their rows that meet a
    condition. `names_rows`: each row comes with its database, table
    and time. `resumes_from_tables`: the offsets in a table's snapshots suffice to continue with a new checkpoint.
    `keeps_state`: the source needs `SourceRequest.state` in the next run. `reads_exactly`: the rows of a table can be
    read as of one position, so that no change in them comes again. `reads_flink_cdc`: files of Flink CDC may name this
    type. `lag_unit` is the unit of `Source.lag`. `numbers_messages`: messages have a number in their partition, the
    metadata column `offset`. `defers_ranges`: the source is a `DeferringSource`, so that tables may have a `freshness`.
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
    lag_unit: LagUnit = RECORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSelection:
    """The selection of source tables by regular expressions for full names; exclusion wins."""

    including_tables: str = ".*"
    excluding_tables: str | None = None
    including_databases: str = ".*"
    excluding_databases: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """The part of a pipeline's description that concerns every source, beside the source's own section.

    `state` is the folder of the checkpoint where the source may keep files of its own, `snapshot_requests` the users'
    requests to read tables again. `extras` are the parts of a record that the
    pipeline needs. `rereads`: tables are to be emptied and read again now; `rereads_when_lost`: also when the position
    is gone. `single_table`: all rows go to one table; `merges_shards`: so do tables of the same name in several
    databases; `defines_key`: the description, not the source, decides the key of that one table. The next three say
    how values are represented: all as text, times as text, and zero dates as an error. `demand` decides which part
    of a table has to be read: a source may read more; `language` is that of conditions in `snapshot_requests`.
    `sink_warehouse` and `sink_options` open the catalog of the target tables, for a source of tables that does not name
    its own.
    """

    state: StateFolder
    snapshot_requests: StateFolder
    zone: str = "UTC"
    selection: TableSelection = TableSelection()
    extras: frozenset[Extra] = frozenset()
    keyless: KeylessRule = "append"
    accept_gap: bool = False
    rereads: bool = False
    rereads_when_lost: bool = False
    single_table: bool = False
    merges_shards: bool = False
    defines_key: bool = False
    all_as_text: bool = False
    times_as_text: bool = False
    zero_dates_fail: bool = False
    demand: DemandPolicy | None = None
    language: ConditionLanguage | None = None
    sink_warehouse: str = ""
    sink_options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SourceFinding:
    """One result of a check, with the fix if it is a problem. `code` is the exit code of an error."""

    level: Literal["ok", "warning", "error"]
    message: str
    fix: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """The result of checking a source. `place` describes it in a few words; `tables` are those it would capture.

    `selections` describe what is selected of tables from which not all is read. `hiding` are tables that hide needed
    columns from the user, which a finding names: their `tables` lack those columns.
    """

    place: str
    findings: Sequence[SourceFinding] = ()
    tables: Sequence[SourceSchema] = ()
    selections: Mapping[TableName, Sequence[str]] = field(default_factory=dict)
    hiding: frozenset[TableName] = frozenset()


@dataclass(frozen=True, slots=True)
class TableCapture:
    """How a source that describes its tables captures them.

    `reads_rows`: the rows that a table has now are read first. `reads_new_tables`: so are those of tables that appear
    later. `renames_columns`: renamed columns are renamed in the target table at their position in the log.
    `includes` says whether a table is captured, given tables to leave out. `captured_before` returns tables captured in
    the past, given the end of the last finished batch. `follows_drop`: a table that is dropped loses its rows.
    """

    reads_rows: bool
    reads_new_tables: bool
    renames_columns: bool
    includes: Callable[[TableName, frozenset[TableName]], bool]
    captured_before: Callable[[Offsets], Collection[TableName]]
    follows_drop: bool = False


@dataclass(frozen=True, slots=True)
class Preparation:
    """The decisions of a pipeline before its first batch, made with the described tables.

    `left_out` are source tables that no target table can store, `reread` those to read again (all tables if the request
    says so and there are none). `exact`: a target table would show a change that is applied twice. `before_images` are
    the source tables of whose updates the old row is needed too. `outdated` are source tables that do not exist, and
    whose targets have rows that are to go when a table of this name is created. A stream of Spark has no target tables:
    none can be emptied.
    """

    is_new: bool
    left_out: frozenset[TableName] = frozenset()
    reread: tuple[TableName, ...] = ()
    exact: bool = False
    before_images: frozenset[TableName] = frozenset()
    outdated: frozenset[TableName] = frozenset()
    has_targets: bool = True


@dataclass(frozen=True, slots=True)
class Sampler:
    """The first records of a message source: `ranges` returns ranges with about that number of records."""

    ranges: Callable[[int], list[Range]]
    place: str


class Connector(ABC, Generic[C]):
    """A kind of source. Each method gets the validated section and the pipeline's request.

    `references` are the keys of the section in which `${...}` remains a reference until it is used, because they
    contain secrets. `url_schemes` are those of the places for which `draft` writes a section, and `url_form` shows
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
