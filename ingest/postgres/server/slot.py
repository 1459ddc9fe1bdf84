"""The replication slot of a pipeline: creation, checks, its readers, and the position confirmed to the server.

The publication must exist before the slot: a change is decoded with the catalog as of its place in the log. A slot is
dropped only if it has lost its WAL and the tables are read again: any other dropped slot is lost data.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ingest.postgres.errors import NoFreeSlot, SlotAhead, SlotLost, SlotMissing
from penstock.ingest.postgres.server.connection import is_of_this_process
from penstock.ingest.postgres.server.lsn import lsn_text, parse_lsn

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection, Row

log = logging.getLogger(__name__)
PLUGIN = "pgoutput"
_LOOKS, _PAUSE_S = 50, 0.1
_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_LONGEST_TASK_S = 3600.0


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """The current state of a replication slot. `confirmed` is the position from which the server keeps changes."""

    name: str
    plugin: str
    database: str
    is_active: bool
    wal_status: str
    restart: int | None
    confirmed: int


# What `slot_of` needs of a row of pg_replication_slots.
SLOT_COLUMNS = "slot_name, plugin, database, active, wal_status, restart_lsn, confirmed_flush_lsn"


def slot_facts(connection: PgConnection, slot: str) -> SlotFacts | None:
    """Return the slot, None if it does not exist."""
    rows = connection.rows(
        f"SELECT {SLOT_COLUMNS} FROM pg_replication_slots WHERE slot_name = {connection.literal(slot)}"
    )
    return slot_of(rows[0]) if rows else None


def slot_of(row: Row) -> SlotFacts | None:
    """Return the slot of a row with `SLOT_COLUMNS`, None if they are null."""
    name, plugin, database, active, status, restart, confirmed = row
    if name is None:
        return None
    return SlotFacts(
        name,
        str(plugin or ""),
        str(database or ""),
        active == "t",
        str(status),
        parse_lsn(restart) if restart else None,
        parse_lsn(confirmed) if confirmed else 0,
    )


def create_slot(connection: PgConnection, slot: str, *, failover: bool) -> SlotFacts:
    """Create the slot. The server waits until every transaction that is running has ended."""
    # The server does not say for whom it waits, and a forgotten transaction may last for hours.
    running = connection.rows(
        "SELECT pid, application_name FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()"
    )
    if running:
        who = ",".join(f"{pid}:{name}" for pid, name in running)
        log.info("event=slot_waits slot=%s for_transactions_of=%s", slot, who)
    # The arguments `twophase` and `failover`: servers before 17 do not have the second.
    more = ", false, true" if failover else ""
    connection.rows(f"SELECT pg_create_logical_replication_slot({connection.literal(slot)}, '{PLUGIN}', false{more})")
    found = slot_facts(connection, slot)
    if found is None:
        raise SlotMissing(
            "the replication slot was dropped right after it was created",
            slot=slot,
            hint="find the program that drops slots, and start again; each pipeline needs another slot.name",
        )
    log.info("event=slot_created slot=%s position=%s", slot, lsn_text(found.confirmed))
    return found


LOST = "lost"


# The advice for a new pipeline that finds a slot which it has not created.
OTHERS_SLOT = (
    "the new pipeline reads the log from this position; set a different slot.name if another pipeline or tool reads the"
    " slot, because each loses the changes that the other has confirmed"
)


def existing_position(connection: PgConnection, slot: str) -> str | None:
    """Return the position of the slot if it exists and can be read."""
    found = slot_facts(connection, slot)
    return None if found is None or found.wal_status == LOST else lsn_text(found.confirmed)


def warn_of_existing(connection: PgConnection, slot: str) -> None:
    """Log a warning if a new pipeline will read a slot that it has not created: another one may read it too."""
    position = existing_position(connection, slot)
    if position is not None:
        log.warning("event=slot_existed slot=%s position=%s note=%s", slot, position, OTHERS_SLOT)


def slot_to_read(connection: PgConnection, slot: str, *, failover: bool, replaces_lost: bool) -> SlotFacts:
    """Return the slot, created if it is missing.

    With `replaces_lost`, a slot that has lost its WAL is dropped and created again: nothing can be read from it. Else
    it is an error.
    """
    found = slot_facts(connection, slot)
    if found is not None and found.wal_status == LOST and replaces_lost and found.plugin == PLUGIN:
        connection.rows(f"SELECT pg_drop_replication_slot({connection.literal(slot)})")
        log.warning("event=lost_slot_replaced slot=%s", slot)
        found = None
    if found is None:
        return create_slot(connection, slot, failover=failover)
    return require_slot(connection, slot, found.confirmed)


def require_slot(connection: PgConnection, slot: str, start: int) -> SlotFacts:
    """Return the slot if the log can be read from there; a PositionLost says why it cannot."""
    return readable_slot(connection, slot, slot_facts(connection, slot), start)


def readable_slot(connection: PgConnection, slot: str, found: SlotFacts | None, start: int) -> SlotFacts:
    """Return the slot that was found if the log can be read from there, like `require_slot`."""
    if found is None:
        raise SlotMissing(
            "the replication slot of the pipeline does not exist any more",
            slot=slot,
            position=lsn_text(start),
            hint="changes since this position are lost: start with --resnapshot, which creates the slot again",
        )
    if found.plugin != PLUGIN:
        raise SlotMissing(
            "the replication slot exists for something else",
            slot=slot,
            plugin=found.plugin or "none",
            wanted=PLUGIN,
            hint="set a different slot.name: the pipeline creates its slot by itself",
        )
    if found.wal_status == LOST:
        raise SlotLost(
            "the server has removed the WAL that the replication slot needs",
            slot=slot,
            position=lsn_text(start),
            max_slot_wal_keep_size=connection.value("SHOW max_slot_wal_keep_size"),
            hint="start with --resnapshot, which replaces the slot and reads the tables again; raise "
            "max_slot_wal_keep_size",
        )
    if found.confirmed > start:
        # The server would begin at the confirmed position without an error.
        raise SlotAhead(
            "the replication slot was read by something else: changes after this position are gone",
            slot=slot,
            position=lsn_text(start),
            confirmed=lsn_text(found.confirmed),
            hint="if another driver of this pipeline has replaced this one, nothing is lost; otherwise set a different "
            "slot.name for each pipeline, and start with --resnapshot",
        )
    return found


def free_slot(connection: PgConnection, slot: str, start: int) -> None:
    """Wait until the slot has no reader; end one of this pipeline, such as the connection of a task that died.

    A reader from the same position may be another attempt of the task: Spark runs two at a time with spark.speculation,
    and ends the second one when the first is done. If the second one ended the first, a third would end the second,
    until the batch fails. The server itself ends the reader of a machine that was lost. A reader of this process is one
    that failed before. A reader of something else stays: the slot is then busy when it is opened.
    """
    name, looks = connection.literal(slot), 0
    until: float | None = None
    while looks < _LOOKS:
        pid = connection.value(f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = {name}")
        if pid is None:
            return
        # The application name contains the name of the slot: only readers of this pipeline are ended.
        own = f"application_name = {connection.literal(connection.server.shown_name)} AND usename = current_user"
        if (until is None or time.monotonic() < until) and _reads_the_same(connection, pid, start, own):
            if until is None:
                until = time.monotonic() + _LONGEST_TASK_S
                log.warning("event=waits_for_former_reader slot=%s pid=%s at_most=%gs", slot, pid, _LONGEST_TASK_S)
            time.sleep(_WAIT_S)
            continue
        looks += 1
        ended = connection.value(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = {pid} AND {own}")
        if ended is not None:
            log.warning("event=former_reader_ended slot=%s pid=%s", slot, pid)
        time.sleep(_PAUSE_S)


def _reads_the_same(connection: PgConnection, pid: str, start: int, own: str) -> bool:
    """Return whether another process of this pipeline reads from this position.

    When it reported last is not asked: the server shows that to roles with pg_read_all_stats only, and in the time of
    the reader's machine.
    """
    if is_of_this_process(int(pid)):
        return False
    statement = connection.literal(f"START_REPLICATION %LOGICAL {lsn_text(start)} %")
    found = connection.value(
        f"SELECT true FROM pg_stat_activity WHERE pid = {pid} AND {own} AND query LIKE {statement}"
    )
    return found is not None


def confirm(connection: PgConnection, slot: str, position: int) -> None:
    """Confirm to the server that changes before this position are no longer needed."""
    # The server writes this position to disk at its checkpoints only, so it may go back after a crash. That is
    # harmless, because the offsets decide where reading continues.
    place = f"'{lsn_text(position)}'::pg_lsn"
    name = connection.literal(slot)
    # The server refuses to move a slot backwards, or to move a slot that is being read. Both stay where they are.
    connection.rows(
        f"SELECT pg_replication_slot_advance(slot_name, {place}) FROM pg_replication_slots WHERE slot_name = {name} "
        f"AND confirmed_flush_lsn < {place} AND NOT active"
    )


def copied_slot(connection: PgConnection, slot: str, plugin: str = PLUGIN) -> str:
    """Return the name of a copy of the slot, which the server drops when this connection ends.

    `plugin` decodes the log for it. The copy can be read while the slot itself is being read, and keeps the WAL that
    the slot keeps now.
    """
    # A name has 63 characters at most.
    name = f"{slot[:40]}_copy_{secrets.token_hex(6)}"
    until, warned = time.monotonic() + _LONGEST_WAIT_S, False
    while True:
        try:
            given = f"{connection.literal(slot)}, '{name}', true, '{plugin}'"
            connection.rows(f"SELECT pg_copy_logical_replication_slot({given})")
        except NoFreeSlot:
            # Tasks that read chunks at the same time have a copy each, for a short while.
            if time.monotonic() > until:
                raise
            if not warned:
                log.warning("event=waits_for_free_slot slot=%s", slot)
            warned = True
            time.sleep(_PAUSE_S)
        else:
            return name
