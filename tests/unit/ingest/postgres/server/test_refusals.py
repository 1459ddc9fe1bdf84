"""Errors of the server, by what they mean."""

from __future__ import annotations

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.postgres.errors import BehindPooler
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.refusals import refused, unopened

SERVER = PgAddress("db", 6432, "cdc", "cdc", "shop")


def test_a_pooler_that_does_not_pass_replication_on_is_named() -> None:
    """With the texts of pgbouncer 1.18: without and with ignored parameters."""
    at_login = unopened(
        SERVER, 'connection to server at "db", port 6432 failed: FATAL:  unsupported startup parameter: options'
    )
    syntax = 'syntax error at or near "START_REPLICATION"'
    in_stream = refused(SERVER, "42601", syntax, 'START_REPLICATION SLOT "s" LOGICAL 0/1')
    before = refused(SERVER, "42601", 'syntax error at or near "IDENTIFY_SYSTEM"', "IDENTIFY_SYSTEM")
    for error in (at_login, in_stream, before):
        assert isinstance(error, BehindPooler)
        assert not error.retryable
    assert not isinstance(refused(SERVER, "42601", syntax, "SELECT FROM"), BehindPooler)
    assert isinstance(unopened(SERVER, "Connection refused"), ConnectionLost)


def test_a_password_that_is_missing_is_no_server_that_cannot_be_reached() -> None:
    error = unopened(SERVER, 'connection to server at "db", port 5432 failed: fe_sendauth: no password supplied')
    assert isinstance(error, MissingGrant)
    assert not error.retryable
    assert "PGPASSFILE" in str(error)


@pytest.mark.parametrize(
    "reason",
    [
        'FATAL:  pg_hba.conf rejects connection for host "10.0.0.9", user "cdc", database "shop", no encryption',
        'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "cdc", database "shop", SSL encryption',
        *(f'FATAL:  {kind} authentication failed for user "cdc"' for kind in ("GSSAPI", "LDAP", "PAM", "certificate")),
    ],
)
def test_a_refused_login_is_no_server_that_cannot_be_reached(reason: str) -> None:
    error = unopened(SERVER, f'connection to server at "db", port 6432 failed: {reason}')
    assert isinstance(error, MissingGrant)
    assert not error.retryable


@pytest.mark.parametrize(
    "first",
    [
        "the database system is starting up",
        "the database system is shutting down",
        "the database system is in recovery mode",
        "the database system is not yet accepting connections",
        "sorry, too many clients already",
        'too many connections for role "cdc"',
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
    ],
)
def test_a_server_that_cannot_answer_now_is_waited_for(first: str) -> None:
    """By the second try of libpq, without TLS, it may answer, and refuse that one."""
    begin = 'connection to server at "db", port 6432 failed: FATAL:  '
    second = 'no pg_hba.conf entry for host "10.0.0.9", user "cdc", database "shop", no encryption'
    for text in (begin + first, f"{begin}{first}\n{begin}{second}"):
        error = unopened(SERVER, text)
        assert isinstance(error, ConnectionLost)
        assert error.retryable


def test_a_ticket_of_kerberos_that_has_expired_is_waited_for_and_named() -> None:
    reason = "could not initiate GSSAPI security context: Unspecified GSS failure.  Minor code: Ticket expired"
    error = unopened(SERVER, f'connection to server at "db", port 6432 failed: {reason}')
    assert isinstance(error, ConnectionLost)
    assert "kinit" in str(error)


def test_the_log_of_a_server_that_cannot_check_tickets_is_named() -> None:
    reason = "GSSAPI continuation error: Unspecified GSS failure.  Minor code: Generic error (see e-text)"
    error = unopened(SERVER, f'connection to server at "db", port 6432 failed: {reason}')
    assert isinstance(error, ConnectionLost)
    assert "its log has the reason" in str(error)
    assert "kinit" not in str(error)


@pytest.mark.parametrize("reason", ['definition of service "" not found', 'service file "/etc/pg" not found'])
def test_a_service_that_libpq_does_not_find_is_an_error_at_once(reason: str) -> None:
    error = unopened(SERVER, f"connection is bad: {reason}")
    assert isinstance(error, SourceError)
    assert not isinstance(error, ConnectionLost)
    assert not error.retryable
    assert "unset PGSERVICE" in str(error)
