"""`penstock dlq PIPELINE list|show|replay|drop`: the records that could not be written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError, counted
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Flags, parse_with_words
from penstock.pipelines.commands.output import answer, harmless, print_rows, wants_json
from penstock.pipelines.commands.pipeline_choice import WHERE, NamedPipeline, action_of, named, of_spec, spec_of_flags
from penstock.pipelines.commands.target import number, text, yes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from penstock.pipelines.config.model import PipelineSpec
    from penstock.table.handle import Table

_OF_LETTERS = (
    Flag("reason", "only dead letters with this reason, as  list  shows it", metavar="REASON"),
    Flag("target", "only dead letters of this target table", metavar="DATABASE.TABLE"),
    Flag("position", "only the dead letter with this source position, as  show  prints it", metavar="PLACE@OFFSET"),
    Flag("limit", "with show: number of dead letters, newest first (default: 20)", metavar="N"),
    Flag("dry-run", "with replay and drop: only print what would be done", "bool"),
)
FLAGS = (
    *WHERE,
    Flag("table", "the dead-letter table, if no pipeline file names it", metavar="DATABASE.TABLE"),
    *_OF_LETTERS,
)
_DOES = "List dead letters (records that could not be written), replay them, or drop them."
_USAGE = "FILE (list | show | replay | drop)"
_VERBS = ("list", "show", "replay", "drop")
_RAW = 200
_LIMIT = 20
_COLUMNS = {"reason": "error_class", "target": "target_table", "position": "source_position"}  # by flag


def command(name: str, words: list[str]) -> int:
    verb, pipeline, flags = _asked(name, words)
    limit = number(flags, "limit")
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit {limit} shows no dead letter", hint="a limit is 1 or more")
    if limit is not None and verb != "show":
        raise ConfigError(
            f"--limit has no meaning for {verb}, which applies to all dead letters that the other flags select",
            hint="select them with  --reason ,  --target  or  --position",
        )
    table = _table(pipeline, flags)
    if table is None:
        if verb in {"drop", "replay"} and not yes(flags, "dry-run"):
            _give_up_replay(pipeline, None)
        return answer(flags, {"pipeline": pipeline.name, "letters": 0}, f"{pipeline.name} has no dead letters")
    rows = table.scan(where=_where(pipeline, flags)).to_arrow()
    if not rows.num_rows:
        _warn_of_no_match(pipeline, table, flags)
    match verb:
        case "list":
            return _list(pipeline, table, rows, flags)
        case "show":
            return _show(rows, flags, limit or _LIMIT)
        case "drop":
            return _drop(pipeline, table, rows, flags)
    return _replay(pipeline, table, rows, flags)


def _asked(name: str, words: list[str]) -> tuple[str, NamedPipeline, Flags]:
    """Return the verb, the pipeline and the flags.

    The words are `FILE VERB ...`, or `ACTION VERB ...` with the flags of the action.
    """
    action = action_of(words)
    if action is None:
        help_text = "FILE is the pipeline's file, its name, or a sync action, whose flags follow the verb"
        found, flags = parse_with_words(name, FLAGS, words, _DOES, _USAGE, help_text)
        if len(found) == 2 and found[1] in _VERBS:
            return found[1], named(found[0], flags, name), flags
    elif len(words) > 1 and words[1] in _VERBS:
        spec, flags = spec_of_flags(f"{name} {words[1]}", [action.name, *words[2:]], _OF_LETTERS, _DOES)
        flags.pop("table", None)  # of the action: the target table
        return words[1], of_spec(spec), flags
    verb = next((word for word in words[1:2] if not word.startswith("-")), None)
    raise ConfigError(
        "a verb is missing" if verb is None else f"the verb {verb!r} is unknown",
        hint=f"penstock dlq {action.name if action else 'pipeline.yaml'} list | show | replay | drop",
    )


def _table(pipeline: NamedPipeline, flags: Flags) -> Table | None:
    """Return the dead-letter table, None where the pipeline has never kept a letter.

    A file names the table. Without a file, it is the table that the pipeline's driver used last, according to its
    status. Without a status, it is the table that has letters of this pipeline. ConfigError if several tables have such
    letters.
    """
    from penstock.pipelines.monitor.status import letters_kept

    if (said := text(flags, "table")) is not None:
        from penstock.table.handle import Table

        return Table(pipeline.warehouse.store(said))
    there = [table for name in _names(pipeline) if (table := _opened(pipeline, name)) is not None]
    if len(there) < 2:
        return there[0] if there else None
    used = [table for table in there if letters_kept(pipeline.warehouse, [table.name], pipeline.name)]
    if len(used) > 1:
        names = ", ".join(table.name for table in used)
        raise ConfigError(
            "several tables have dead letters of this pipeline", tables=names, hint=f"--table {used[0].name}"
        )
    return (used or there)[0]


def _names(pipeline: NamedPipeline) -> list[str]:
    """Return the names that the dead-letter table may have."""
    from penstock.pipelines.api.replay_dead_letters import table_of_letters
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
    from penstock.pipelines.tasks.dead_letter_table import DEFAULT_NAME

    if pipeline.spec is not None:
        return [table_of_letters(pipeline.spec)]
    driver = CheckpointFolder(pipeline.checkpoint, pipeline.warehouse.store_options).status() or {}
    said = driver.get("dead_letter_table")
    return [str(said)] if said else [f"{database}.{DEFAULT_NAME}" for database in pipeline.databases]


def _opened(pipeline: NamedPipeline, name: str) -> Table | None:
    from penstock.table.handle import Table
    from penstock.table.meta.store import TableMissing

    try:
        return Table(pipeline.warehouse.store(name))
    except TableMissing:
        return None


def _where(pipeline: NamedPipeline, flags: Flags) -> pc.Expression:
    import pyarrow.compute as pc

    # Several pipelines may share a dead-letter table.
    where = pc.field("pipeline") == pipeline.name
    for flag, column in _COLUMNS.items():
        if (wanted := text(flags, flag)) is not None:
            where &= pc.field(column) == wanted
    return where


def _warn_of_no_match(pipeline: NamedPipeline, table: Table, flags: Flags) -> None:
    """Print the values of a flag that have dead letters on stderr, because a misspelled value has no letters."""
    asked = [flag for flag in ("reason", "target") if flag in flags]
    if not asked:
        return
    rows = table.scan(columns=list(_COLUMNS.values()), where=_where(pipeline, {})).to_arrow()
    for flag in asked:
        there = sorted(value for value in rows[_COLUMNS[flag]].unique().to_pylist() if value is not None)
        if (wanted := text(flags, flag)) not in there:
            known = f"there are {', '.join(there)}" if there else "no dead letter has any"
            print(f"warning: no dead letter has the {flag} {wanted}: {known}", file=sys.stderr)


def _warn_of_newer_rows(spec: PipelineSpec, tables: list[str]) -> None:
    """Print on stderr the tables in which the replay may have overwritten newer rows and undone deletes."""
    from penstock.pipelines.job.build import job_warehouse
    from penstock.schema_evolution.row_versions import keeps_versions
    from penstock.table.options.merge_engines import SEQUENCE_FIELD

    schemas = {table: job_warehouse(spec).store(table).schema() for table in tables}
    keyed = {table: schema for table, schema in schemas.items() if schema.primary_keys}
    ordered = [table for table, schema in keyed.items() if schema.typed[SEQUENCE_FIELD] or keeps_versions(schema)]
    if ordered:
        # These tables compare a replayed row with its present row, which a deleted row does not have.
        print(
            f"warning: {', '.join(ordered)}: rows that were deleted since may be back. penstock verify  finds them in"
            " the tables of a database, and  --reset TABLE  reads a table again",
            file=sys.stderr,
        )
    if at_risk := [table for table in keyed if table not in ordered]:
        print(
            f"warning: {', '.join(at_risk)}: without a sequence.field the replayed rows count as the newest: they may"
            " have overwritten newer ones, and rows that were deleted since are back. penstock verify  finds both in"
            " the tables of a database, and  --reset TABLE  reads a table again",
            file=sys.stderr,
        )


def _list(pipeline: NamedPipeline, table: Table, rows: pa.Table, flags: Flags) -> int:
    wanted = [("source_position", "count"), ("received_at", "min"), ("received_at", "max"), ("error", "min")]
    groups = rows.group_by(["target_table", "error_class"]).aggregate(wanted).to_pylist()
    found = [
        {
            "target": group["target_table"],
            "reason": group["error_class"],
            "letters": group["source_position_count"],
            "first": group["received_at_min"],
            "last": group["received_at_max"],
            "for_example": group["error_min"],
        }
        for group in sorted(groups, key=lambda group: -group["source_position_count"])
    ]
    if wants_json(flags):
        facts = {"pipeline": pipeline.name, "table": table.name, "letters": rows.num_rows, "groups": found}
        return answer(flags, facts)
    print(f"{counted(rows.num_rows, 'dead letter')} of {pipeline.name} in {table.name}")
    if found:
        print()
        print_rows(list(found[0]), [list(group.values()) for group in found])
    return 0


def _show(rows: pa.Table, flags: Flags, limit: int) -> int:
    newest = rows.sort_by([("received_at", "descending")]).slice(0, limit).to_pylist()
    if wants_json(flags):
        return answer(flags, {"letters": [letter | {"raw_value": _plain(letter["raw_value"])} for letter in newest]})
    for letter in newest:
        target = f" for {letter['target_table']}" if letter["target_table"] else ""
        again = f", replayed {letter['attempt']} times" if letter["attempt"] else ""
        print(f"{letter['source_position']}{target}  {letter['received_at']:%Y-%m-%d %H:%M:%S}{again}")
        print(harmless(f"  {letter['error_class']}: {letter['error']}"))
        print(harmless(f"  {_plain(letter['raw_value'])[:_RAW]}"))
    return 0


def _plain(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "backslashreplace")


def _drop(pipeline: NamedPipeline, table: Table, rows: pa.Table, flags: Flags) -> int:
    if not yes(flags, "dry-run") and rows.num_rows:
        table.delete(_where(pipeline, flags))
    if not yes(flags, "dry-run"):
        _give_up_replay(pipeline, table.refresh())
    facts = {"pipeline": pipeline.name, "dropped": rows.num_rows, "dry_run": yes(flags, "dry-run")}
    letters = counted(rows.num_rows, "dead letter")
    if yes(flags, "dry-run"):
        return answer(flags, facts, f"{letters} would be dropped")
    return answer(flags, facts, f"{letters} {_was(rows.num_rows)} dropped")


def _give_up_replay(pipeline: NamedPipeline, table: Table | None) -> None:
    from penstock.pipelines.api.replay_dead_letters import given_up
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder

    given_up(CheckpointFolder(pipeline.checkpoint, pipeline.warehouse.store_options), table, pipeline.name)


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def _replay(pipeline: NamedPipeline, table: Table, rows: pa.Table, flags: Flags) -> int:
    from penstock.pipelines.api.dead_letters import letters_of, settle
    from penstock.pipelines.api.replay_dead_letters import begun_of, ended, finished, replay

    if pipeline.spec is None:
        raise ConfigError(
            "replaying dead letters needs the pipeline's settings",
            hint="name its file, or the action and its flags:  penstock dlq kafka-sync-database replay --warehouse ...",
        )
    is_dry = yes(flags, "dry-run")
    if not is_dry and begun_of(pipeline.spec) is not None:
        # Letters may be new since, so that the same command would not be the same batch.
        table = finished(pipeline.spec, table)
        rows = table.scan(where=_where(pipeline, flags)).to_arrow()
    letters = letters_of(rows)
    if is_dry or not letters:
        facts: dict[str, Any] = {"pipeline": pipeline.name, "letters": len(letters), "dry_run": True}
        would = f"{counted(len(letters), 'dead letter')} would be replayed" if letters else "no dead letter to replay"
        return answer(flags, facts, would)
    # Before the letters are deleted. Tables that have the rows skip them if this is repeated after a crash.
    done = replay(pipeline.spec, letters, table)
    settle(table, letters, done.bad, pipeline.name)
    ended(pipeline.spec, done.writer)
    good = len(letters) - len(done.bad)
    facts = {"pipeline": pipeline.name, "replayed": good, "still_bad": len(done.bad), "rows": done.rows}
    still = f"{len(done.bad)} {'is' if len(done.bad) == 1 else 'are'} still bad"
    answer(flags, facts, f"{counted(good, 'dead letter')} {_was(good)} written, {still}")
    _warn_of_newer_rows(pipeline.spec, sorted(table for table, count in done.rows.items() if count))
    return 8 if done.bad else 0
