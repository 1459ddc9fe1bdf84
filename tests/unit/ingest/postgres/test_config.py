"""The section `source: {type: postgres}`, and the options of --postgres-conf that fill it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.ingest.postgres.config import PostgresConfig

LEAST = {
    "type": "postgres",
    "hostname": "h",
    "username": "u",
    "password": "secret",
    "database-name": "d",
    "slot.name": "s",
}


def test_only_the_address_and_the_login_are_needed() -> None:
    config = PostgresConfig.model_validate(LEAST)
    assert (config.port, config.startup.mode, config.schema_name, config.keyless) == (
        5432,
        "initial",
        ".*",
        "leave-out",
    )
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slot.name": "Upper"}, "lower case letters"),
        ({"slot.name": "x" * 64}, "lower case letters"),
        ({"keyless": "append"}, "leave-out or fail"),
        ({"startup": {"mode": "earliest-offset"}}, "Valid scan.startup.mode for Postgres CDC are"),
        ({"table-name": "("}, "not a regular expression"),
        ({"tabel-name": "x"}, "tabel-name"),
    ],
)
def test_wrong_values_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PostgresConfig.model_validate({**LEAST, **change})


def test_latest_is_short_for_latest_offset() -> None:
    assert PostgresConfig.model_validate({**LEAST, "startup": {"mode": "latest"}}).startup.mode == "latest-offset"
