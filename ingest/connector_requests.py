"""The values that a pipeline passes to a connector: its request, the selection of tables, its first decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.storage.state_folder import StateFolder

if TYPE_CHECKING:
    from penstock.formats.demand import ConditionLanguage, DemandPolicy
    from penstock.ingest.fetched_messages import Extra

TableName: TypeAlias = tuple[str, str]  # database and table
Keyless: TypeAlias = Literal["leave-out", "append", "fail"]
# As the messages state: left out if they say that the table has no key, appended if they say nothing about keys.
KeylessRule: TypeAlias = Literal["leave-out", "append", "fail", "as-stated"]


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

    `state` is the folder of the checkpoint where the source may keep files of its own. `snapshot_requests` is the
    folder with the users' requests to read tables again, and `language` reads the conditions in them. `extras` are the
    parts of a record that the pipeline needs. `rereads`: tables are emptied and read again now; `rereads_when_lost`:
    they are, too, when the position is gone. `single_table`: all rows go to one table; `merges_shards`: tables of the
    same name in several databases go to one table; `defines_key`: the description, not the source, decides the key of
    the single table. `all_as_text`, `times_as_text`: how values are represented. `zero_dates_fail`: a date of zeros is
    an error. `demand` decides which part of a table has to be read; a source may read more. `sink_warehouse` and
    `sink_options` open the catalog of the target tables, for a source of tables that does not name its own catalog.
    `samples` is how many rows at each end of a table show its columns, if the source declares none.
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
    samples: int = 1


@dataclass(frozen=True, slots=True)
class Preparation:
    """The decisions of a pipeline before its first batch, made with the described tables.

    `left_out` are source tables that no target table can store. `reread` are the tables to read again; if it is empty
    and the request has `rereads`, all tables are read again. `exact`: a target table would show a change that is
    applied twice. `before_images` are the source tables whose updates need the old row too. `outdated` are source
    tables that do not exist; their targets have rows that are deleted when a table of this name is created. A stream
    of Spark has no targets (`has_targets`), so no target can be emptied.
    """

    is_new: bool
    left_out: frozenset[TableName] = frozenset()
    reread: tuple[TableName, ...] = ()
    exact: bool = False
    before_images: frozenset[TableName] = frozenset()
    outdated: frozenset[TableName] = frozenset()
    has_targets: bool = True
