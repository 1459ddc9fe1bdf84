"""How the findings of a server's checks become errors."""

from __future__ import annotations

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import (
    MissingGrant,
    SourceNotReady,
    error_finding,
    require_ready,
    warning_finding,
)

GRANT = error_finding(MissingGrant, "the user may not read t", "no SELECT", "SELECT", "GRANT SELECT ON t TO u;")
VERSION = error_finding(SourceError, "the server is too old", 9, "14", "upgrade it")
WARNING = warning_finding(SourceError, "t has a cascade", "CASCADE", "none", "change rows in the application")


def test_warnings_alone_let_a_pipeline_start() -> None:
    require_ready([WARNING])


def test_single_error_is_raised_as_its_own_kind() -> None:
    with pytest.raises(MissingGrant, match="the user may not read t") as caught:
        require_ready([WARNING, GRANT])
    assert caught.value.hint == "GRANT SELECT ON t TO u;"
    assert caught.value.facts == {"seen": "no SELECT", "wanted": "SELECT"}


def test_several_errors_are_one_report_with_every_fix() -> None:
    with pytest.raises(SourceNotReady, match="the server has 2 settings") as caught:
        require_ready([GRANT, WARNING, VERSION])
    assert [str(fact) for fact in caught.value.facts.values()] == [
        "the user may not read t: no SELECT, wanted SELECT. GRANT SELECT ON t TO u;",
        "the server is too old: 9, wanted 14. upgrade it",
    ]


def test_check_reports_errors_with_their_exit_code() -> None:
    assert (GRANT.for_source().level, GRANT.for_source().code) == ("error", MissingGrant.exit_code)
    assert (WARNING.for_source().level, WARNING.for_source().code) == ("warning", 0)
