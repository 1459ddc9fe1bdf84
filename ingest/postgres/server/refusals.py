"""Errors of the server as errors of Penstock, which say whether a retry can help."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.postgres.errors import BehindPooler, NoFreeSlot, SlotBusy, SlotLost, SlotMissing

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.address import PgAddress

# A privilege is missing, the login is refused, the password is wrong, the database does not exist.
_DENIED = {"42501", "28000", "28P01", "3D000"}
# The server is starting, stopping, or has no connection left.
_TRANSIENT = {"57P01", "57P02", "57P03", "53300", "08000", "08003", "08006"}
_UNREACHABLE = (
    "check that the server is running, that hostname and port are correct, and that no firewall blocks the connection"
)
_POOLER_ANSWERS = "the address is that of a pooler, not of the server"
_NO_TICKET = (
    "the login is by Kerberos: klist shows whether there is a valid ticket for the user wherever the pipeline reads "
    "(KRB5CCNAME), kinit gets one; krbsrvname in a service of libpq, or PGKRBSRVNAME, sets the name of the server"
)
# MIT Kerberos at the client has this text for a refusal by the server, whose log alone contains the reason.
_SERVER_WITHOUT_REASON = "Generic error (see e-text)"
_SERVER_CANNOT_CHECK = (
    "the server cannot check tickets of Kerberos, and its log has the reason: often it cannot read its key file "
    "(krb_server_keyfile), or cannot write to the folder for tickets it has seen (its KRB5RCACHEDIR or TMPDIR)"
)
_NO_SERVICE = "correct PGSERVICE and PGSERVICEFILE wherever the pipeline reads, or unset PGSERVICE, even if empty"
# Answers of a server before it checks the login: while it starts or ends, or when its limit of connections is reached.
# With sslmode=prefer, libpq then tries again without TLS, and the server may refuse that login because TLS is missing.
_NOT_NOW = re.compile(
    r"database system is (?:starting up|shutting down|in recovery mode|not (?:yet )?accepting connections)"
    r"|too many (?:clients|connections)|remaining connection slots"
)
_NO_SENDER_LEFT = (
    "ALTER SYSTEM SET max_wal_senders and restart the server, or end other readers of the log: "
    "SELECT pid, application_name FROM pg_stat_replication"
)


def refused(server: PgAddress, state: str, text: str, sql: str = "") -> SourceError:
    """Return an error of the server as a Penstock error, which says whether a retry can help."""
    statement = sql[:200] or None
    facts: dict[str, Any] = {"server": server.where, "sqlstate": state or None, "reason": text, "statement": statement}
    # An error without SQLSTATE is one of libpq itself, which has lost the connection.
    if not state or state in _TRANSIENT:
        return ConnectionLost("the connection to the PostgreSQL server was lost", retryable=True, **facts)
    if state in _DENIED:
        hint = "check user, password and pg_hba.conf; penstock check names the grants that are missing"
        return MissingGrant("the PostgreSQL server denied access", hint=hint, user=server.user, **facts)
    # syntax_error: the connection is not one for replication, although it was asked for.
    if state == "42601" and sql.startswith(("START_REPLICATION", "IDENTIFY_SYSTEM")):
        return BehindPooler(_POOLER_ANSWERS, **facts)
    # The SQLSTATE object_in_use.
    if state == "55006":
        return SlotBusy(
            "the replication slot is in use",
            retryable=True,
            hint="another pipeline or tool reads it: set a different slot.name for each",
            **facts,
        )
    # configuration_limit_exceeded: other limits of this SQLSTATE have other texts.
    if state == "53400" and "replication slot" in text:
        return NoFreeSlot(
            "no replication slot is free",
            hint="drop slots that nobody reads, or ALTER SYSTEM SET max_replication_slots and restart the server",
            **facts,
        )
    if "can no longer" in text or "cannot read from logical replication slot" in text or "already been removed" in text:
        return SlotLost(
            "the replication slot has lost its position: the server has removed the WAL that it needs",
            hint="start with --resnapshot, which replaces the slot and reads the tables again; raise "
            "max_slot_wal_keep_size",
            **facts,
        )
    if state == "42704" and "replication slot" in text:
        return SlotMissing(
            "the replication slot does not exist",
            hint="changes since it was dropped are lost: start with --resnapshot, which creates it again",
            **facts,
        )
    return SourceError("the PostgreSQL server returned an error", **facts)


def unopened(server: PgAddress, text: str) -> SourceError:
    """Return the error of a connection that was not opened."""
    # For a failed login libpq has only the text of the server's message, and no SQLSTATE. The text has a line for each
    # address of the host.
    if re.search(r'FATAL:  database ".*" does not exist$', text, re.MULTILINE):
        return SourceError(
            "the PostgreSQL server has no such database", server=server.where, reason=text, hint="correct database-name"
        )
    # PgBouncer's own words, for settings of the session and for replication: PostgreSQL has no parameter of this kind.
    if "unsupported startup parameter" in text:
        return BehindPooler(_POOLER_ANSWERS, server=server.where, reason=text)
    # libpq's own words: the server asks for a password, and there is none.
    if "no password supplied" in text:
        return MissingGrant(
            "the PostgreSQL server asks for a password",
            hint="set  password , or leave it to a file of libpq (PGPASSFILE, ~/.pgpass) wherever the pipeline reads",
            user=server.user,
            server=server.where,
            reason=text,
        )
    # Likewise, before a server is asked.
    if "definition of service" in text or "service file" in text:
        return SourceError("libpq cannot use its service", server=server.where, reason=text, hint=_NO_SERVICE)
    if not _NOT_NOW.search(text):
        if "authentication failed for user" in text or "pg_hba.conf" in text or "does not exist" in text:
            return refused(server, "28000", text)
        if "permission denied" in text:
            return refused(server, "42501", text)
    # A ticket that has expired may be renewed while the pipeline waits.
    return ConnectionLost(
        "the PostgreSQL server cannot be reached",
        retryable=True,
        server=server.where,
        reason=text,
        hint=_hint_of_unopened(text),
    )


def _hint_of_unopened(text: str) -> str:
    if "max_wal_senders" in text:
        return _NO_SENDER_LEFT
    if _SERVER_WITHOUT_REASON in text:
        return _SERVER_CANNOT_CHECK
    return _NO_TICKET if "GSSAPI" in text else _UNREACHABLE
