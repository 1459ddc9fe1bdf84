"""URLs of databases, their properties, and sessions."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.errors import ConfigError, StoreError
from penstock.table.catalog.jdbc_database import DuplicateRow, JdbcDatabase


def sqlite(folder: Path) -> JdbcDatabase:
    return JdbcDatabase.of(f"jdbc:sqlite:{folder}/names.db", {})


def test_a_url_may_contain_properties() -> None:
    database = JdbcDatabase.of("jdbc:mysql://db.example:3307/names?user=me&password=se%26cret", {"sslMode": "REQUIRED"})
    assert str(database) == "jdbc:mysql://db.example:3307/names"
    assert dict(database.properties) == {"user": "me", "password": "se&cret", "sslMode": "REQUIRED"}
    assert "cret" not in repr(database)
    assert pickle.loads(pickle.dumps(database)) == database


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:/names.db", "is not the URL of a supported database"),
        ("jdbc:oracle:thin:@host", "is not the URL of a supported database"),
        ("jdbc:postgresql://host/names?sslMode=require", "have no property 'sslMode'"),
        ("jdbc:sqlite:names.db", "absolute path"),
        ("jdbc:sqlite::memory:", "absolute path"),
        ("jdbc:mysql://host", "names no host and database"),
        ("jdbc:mysql://host:x/names", "names no host and database"),
        ("jdbc:mariadb://me:secret@host/names", "contains a login"),
        ("jdbc:mysql://host/names?usr=me", "have no property 'usr'"),
        ("jdbc:sqlite:/names.db?user=me", "have no property 'user'"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        JdbcDatabase.of(url, {})
    assert "secret" not in str(caught.value)


def test_a_misspelt_property_is_compared_with_those_that_exist() -> None:
    with pytest.raises(ConfigError) as caught:
        JdbcDatabase.of("jdbc:mysql://host/names", {"sslmode": "REQUIRED"})
    assert caught.value.hint == "did you mean sslMode?"


def test_statements_are_committed_one_by_one(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    with database.session() as session:
        session.create_table("names", "name VARCHAR(20) PRIMARY KEY")
        assert session.execute("INSERT INTO names VALUES (?)", "a") == 1
        with pytest.raises(DuplicateRow):
            session.execute("INSERT INTO names VALUES (?)", "a")
        session.create_table("names", "name VARCHAR(20) PRIMARY KEY")
    with database.session() as session:
        assert session.rows("SELECT name FROM names WHERE name = ?", "a") == [("a",)]
        assert session.execute("DELETE FROM names WHERE name = ?", "b") == 0


def test_a_database_that_fails_is_named(tmp_path: Path) -> None:
    database = sqlite(tmp_path / "missing")
    with pytest.raises(StoreError, match="the database of the catalog failed") as caught, database.session():
        pass
    assert caught.value.facts["database"] == str(database)
    assert caught.value.retryable


def test_secrets_are_resolved_when_a_session_connects() -> None:
    database = JdbcDatabase.of("jdbc:mysql://127.0.0.1:1/names", {"password": "${NOT_SET_IN_THE_TEST}"})
    assert "NOT_SET_IN_THE_TEST" in dict(database.properties)["password"]
    with pytest.raises(ConfigError, match="NOT_SET_IN_THE_TEST is not set"), database.session():
        pass


def test_a_mode_of_tls_that_does_not_exist_is_refused() -> None:
    database = JdbcDatabase.of("jdbc:mysql://127.0.0.1:1/names", {"sslMode": "perhaps"})
    with pytest.raises(ConfigError, match="sslMode = PERHAPS is not supported"), database.session():
        pass


def test_a_server_that_cannot_be_reached_is_named() -> None:
    database = JdbcDatabase.of("jdbc:mysql://127.0.0.1:1/names", {"user": "me", "password": "secret"})
    with pytest.raises(StoreError, match="the database of the catalog failed") as caught, database.session():
        pass
    assert "secret" not in str(caught.value)
