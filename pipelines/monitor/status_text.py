"""The state of a pipeline, and how far it is behind its source, as facts for programs and as lines for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.errors import counted
from penstock.ingest.database.table_parts import unfinished_parts
from penstock.pipelines.monitor.measures import OF_LOG, lag_text, moment, span
from penstock.pipelines.monitor.pipeline_state import PipelineState, TableStatus

_COLUMNS = ("table", "state", "fresh", "rows/s", "records", "files L0/runs", "snapshot", "schema", "note")


def as_facts(state: PipelineState, position: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the state for programs: times in ISO 8601 and UTC, time spans in seconds."""
    driver = state.driver or {}
    return {
        "pipeline": state.name,
        "state": state.state,
        "paused": state.paused,
        "checkpoint": state.checkpoint,
        "stalled_seconds": state.stalled_seconds,
        "batch": driver.get("batch") if state.progress.done is None else state.progress.done,
        "batch_running": None if state.progress.planned == state.progress.done else state.progress.planned,
        "last_commit": moment(state.last_commit_millis),
        "position": dict(position) if position is not None else None,
        "lag": None if state.lag is None else dict(state.lag),
        "lag_unit": None if state.lag is None else state.lag_unit,
        "driver": dict(driver) or None,
        "dead_letters": sum(state.letters.values()),
        "bad_records": driver.get("bad", 0),
        "parked": {table: dict(reasons) for table, reasons in state.parked.items()},
        "left_out": driver.get("left_out", {}),
        "passed_over": driver.get("passed_over", {}),
        "rereads": _rereads(state, position or {}),
        "freshness": state.deferred.facts(),
        "tables": [_table(state, table, driver) for table in state.tables],
        "warnings": list(state.warnings),
    }


def page_facts(state: PipelineState) -> dict[str, Any]:
    """Return the content of the status page, without positions, checkpoint or anything that may contain a secret."""
    facts, driver = as_facts(state), state.driver or {}
    kept = {
        name: facts[name]
        for name in ("pipeline", "state", "stalled_seconds", "batch", "last_commit", "dead_letters", "tables")
    }
    shown = ("host", "lag", "lag_unit", "error", "copying")
    rate = _rate(state, driver.get("rows_per_second"))
    recent = {"recent": driver.get("recent", []), "rows_per_second": rate}
    return {**kept, **recent, **{name: driver.get(name) for name in shown}}


def _rereads(state: PipelineState, position: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the tables, and parts of tables, that users want to copy again, by how far that is."""
    # A signal is taken once the offsets name it, and deleted by the next batch.
    waiting = [request for request in state.requests if request[0] not in position.get("signals", ())]
    return {
        "copy requested": [
            (", ".join(tables) or "all tables") + (f" where {where}" if where else "") for _, tables, where in waiting
        ],
        "copying again": unfinished_parts(position),
        "copy refused": list(position.get("refused", ())),
    }


def _rate(state: PipelineState, rate: float | None) -> float | None:
    """Return a rate of the newest batch as long as it is one of now, else 0."""
    return 0.0 if state.is_idle and rate is not None else rate


def _table(state: PipelineState, status: TableStatus, driver: Mapping[str, Any]) -> dict[str, Any]:
    fresh = state.fresh_seconds(status)
    seen = driver.get("tables", {}).get(status.table, {})
    parked = state.parked.get(status.table)
    error = status.error or (
        f"parked since batch {parked['batch']}, {parked['error']}: {parked['reason']}" if parked else None
    )
    former = state.uncaptured.get(status.table)
    left_out = f"not captured any more: {', '.join(former)}" if former else None
    return {
        "table": status.table,
        "state": "failed" if error else "left out" if left_out else seen.get("state", "streaming"),
        "fresh_seconds": None if fresh is None else round(fresh, 3),
        "freshness": state.deferred.freshness(status.table),
        "due": moment(state.deferred.due_millis(status.table)),
        "rows_per_second": _rate(state, seen.get("rows_per_second")),
        "records": status.records,
        "files": status.files,
        "level0": status.level0,
        "sorted_runs": status.runs,
        "snapshot": status.snapshot,
        "batch": status.batch,
        "schema": status.schema,
        "committed": moment(status.committed_millis),
        "dead_letters": state.letters.get(status.table, 0),
        "error": error,
        "note": error or left_out or seen.get("note"),
    }


def as_lines(
    state: PipelineState, facts: Mapping[str, Any], command: Callable[..., str]
) -> tuple[list[str], Sequence[str], list[list[object]], list[str]]:
    """Return the lines above the table of tables, its column names and rows, and the lines below it.

    `command` returns the command line that asks a verb of the same pipeline.
    """
    rows = [_row(fact) for fact in facts["tables"]]
    return _head(state, facts), _COLUMNS, rows, _foot(state, facts, command)


def _head(state: PipelineState, facts: Mapping[str, Any]) -> list[str]:
    """Return the lines about the pipeline as a whole."""
    driver = state.driver or {}
    since = driver.get("started_millis")
    running = (
        f" {span((state.now_millis - since) / 1000)}"
        if since and state.state in {"running", "pausing", "paused"}
        else ""
    )
    commit = state.last_commit_millis
    ago = f"   last commit {span((state.now_millis - commit) / 1000)} ago" if commit else ""
    host = f"   driver {driver['host']}" if driver.get("host") and running else ""
    batch = "" if state.progress.done is None else f"   batch {state.progress.done:,}"
    head = [f"{state.name}   {state.state}{running}{batch}{ago}{host}"]
    if facts["position"] is not None:
        head.append(f"source at {place(facts['position'])}{_behind(state)}")
    if state.state == "new":
        head.append(f"the pipeline has never run: there is no checkpoint at {state.checkpoint}")
    if driver.get("error"):
        head.append(f"error  {driver['error']}")
        head += [f"  to repair  {driver['hint']}"] if driver.get("hint") else []
    return head


def _foot(state: PipelineState, facts: Mapping[str, Any], command: Callable[..., str]) -> list[str]:
    """Return the lines about rows and tables that users may have to care for."""
    foot = []
    if state.stalled_seconds is not None:
        since = span(state.stalled_seconds)
        foot.append(
            f"stalled  nothing was committed for {since}, although the source has more data: see the pipeline's log"
        )
    if state.letters:
        parts = ", ".join(f"{table or 'not understood'} {count}" for table, count in sorted(state.letters.items()))
        foot.append(f"dead letters {facts['dead_letters']} ({parts})  ->  {command('dlq', 'show')}")
    if state.parked:
        foot.append(f"parked {', '.join(sorted(state.parked))}  ->  {command('run', '--retry')}")
        foot += [
            f"  to repair {table}  {reasons['hint']}"
            for table, reasons in sorted(state.parked.items())
            if reasons.get("hint")
        ]
    foot += [_deferred(state, group) for group in facts["freshness"]]
    foot += [f"left out  {table}: {reason}" for table, reason in facts["left_out"].items()]
    foot += [f"{kind}  {text}" for kind, all_ in facts["rereads"].items() for text in all_]
    passed = ", ".join(f"{kind} {count:,}" for kind, count in facts["passed_over"].items())
    foot += [f"passed over  {passed}"] if passed else []
    return [*foot, *(f"warning  {warning}" for warning in state.warnings)]


def _deferred(state: PipelineState, group: Mapping[str, Any]) -> str:
    count, left = group["deferred"], (group["due_millis"] - state.now_millis) / 1000
    deferred = "" if count is None else f"   {count:,} {state.lag_unit} deferred" if count else "   nothing deferred"
    due = f"due in {span(left)}" if left > 0 else "due with the next batch"
    return f"freshness {group['freshness']}{deferred}   {due}: {', '.join(group['tables']) or 'no table yet'}"


def _row(table: Mapping[str, Any]) -> list[object]:
    fresh, rate = table["fresh_seconds"], table["rows_per_second"]
    return [
        table["table"],
        table["state"],
        "-" if fresh is None else span(fresh),
        "-" if rate is None else f"{rate:,.0f}",
        table["records"],
        f"{table['level0']} / {table['sorted_runs']}",
        table["snapshot"],
        table["schema"],
        table["note"],
    ]


def _behind(state: PipelineState) -> str:
    """Return how far the position is from the source's end. That compares positions, not rows: `verify` does."""
    if state.lag is None:
        return ""
    text = lag_text(state.lag, state.lag_unit)
    # Rows that the pipeline left out or skipped do not show in a position.
    log = state.lag_unit.partition(OF_LOG)[2]
    if text == "caught up" and log:
        text += f" with the end of {log}; compare rows with  penstock verify"
    return f"   {text}"


def place(position: Mapping[str, Any]) -> str:
    """Return offsets for people: Kafka's by topic and partition, tables' by snapshot, a server's by its log.

    Others are shown as JSON.
    """
    offsets, at, tables = position.get("offsets"), position.get("log"), position.get("tables")
    if isinstance(tables, Mapping):
        return ", ".join(f"{name} {_snapshot(table)}" for name, table in tables.items())
    if isinstance(offsets, Mapping):
        parts = [
            f"{topic}[{partition}]@{offset}" for topic, found in offsets.items() for partition, offset in found.items()
        ]
        return " ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
    if isinstance(at, str) or (isinstance(at, Mapping) and {"file", "pos"} <= at.keys()):
        to_copy = len(position.get("waiting", ())) + len(position.get("cursors", ())) + ("rest" in position)
        to_copy += len(position.get("parts", ()))
        text = at if isinstance(at, str) else f"{at['file']}:{at['pos']}"
        return text + (f", {counted(to_copy, 'table')} to copy" if to_copy else "")
    own = {"now", "lookups", "lookup_marks", "freshness"}
    shown = json.dumps({name: value for name, value in position.items() if name not in own})
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def _snapshot(table: Mapping[str, int]) -> str:
    """Return how far a source table was read."""
    if table["done"] < table["splits"]:
        return f"{table['done']} of {table['splits']} splits of snapshot {table['state']}"
    return f"snapshot {table['next'] - 1}"
