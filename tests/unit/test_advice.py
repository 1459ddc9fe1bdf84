"""Errors that a user can do something about say what: by a hint of their own, or by the advice of their class."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError, PenstockError, TableCorrupt
from penstock.ingest.mongodb.errors import CursorLost
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.table.errors import SnapshotMissing, TagMissing
from tests.source_trees import source_nodes

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("formats", "ingest", "pipelines", "schema_evolution", "storage", "table")


@pytest.mark.parametrize("kind", [TableCorrupt, SnapshotMissing, TagMissing, CursorLost, UnexpectedMessage])
def test_an_error_without_a_hint_has_the_advice_of_its_class(kind: type[PenstockError]) -> None:
    error = kind("it is so", table="db.t")
    assert error.hint == kind.advice
    assert f"to repair: {kind.advice}" in str(error)
    assert kind("it is so", hint="do that").hint == "do that"
    assert pickle.loads(pickle.dumps(error)).hint == kind.advice
    assert ConfigError("it is so").hint is None


STATEMENTS = {
    "CREATE TABLE d.x (id INT, v ROW<a INT>, PRIMARY KEY (v) NOT ENFORCED)": "another type",
    "ALTER TABLE d.t ADD COLUMN id.a INT": "ROW",
    "ALTER TABLE d.t SET ('bucket' = 'many')": "digits",
    "CREATE TABLE d.t (id INT)": "IF NOT EXISTS",
    "SHOW TABLES IN nothing": "CREATE DATABASE",
    "DESCRIBE d.T": "did you mean d.t?",
    "ALTER TABLE d.t ADD COLUMN id INT": "another name",
    "ALTER TABLE d.t DROP COLUMN id": "drop the table",
    "ALTER TABLE d.t DROP PARTITION (dt = 'mon')": "DELETE FROM",
    "SELECT sys.max_pt('d.t')": "condition",
    "CALL sys.create_tag('d.t', 'x')": "write rows",
    "CALL sys.merge_into(target_table => 'd.t')": "source_table =>",
    "CALL sys.compact_database(including_databases => '(')": "backslash",
    "CALL sys.compact('d.t', order_strategy => 'order', order_by => 'id', partition_idle_time => '1d')": "leave",
    "CALL sys.expire_partitions(table => 'd.t', expiration_time => '1d')": "by a condition",
}


@pytest.mark.parametrize(("statement", "advice"), STATEMENTS.items())
def test_a_refused_statement_says_what_to_do(tmp_path: Path, statement: str, advice: str) -> None:
    penstock.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT)", warehouse=str(tmp_path))
    with pytest.raises(PenstockError) as caught:
        penstock.sql(statement, warehouse=str(tmp_path))
    assert advice in (caught.value.hint or "")


ARGUMENTS: dict[str, tuple[Callable[[penstock.Catalog], object], str]] = {
    "a number as a text": (lambda catalog: catalog.table("d.t").scan(snapshot="1"), "without quotes"),
    "a number of 65 bits": (lambda catalog: catalog.table("d.t").scan(snapshot=1 << 64), "smaller"),
    "a text as a number": (lambda catalog: catalog.create_database(3), "in quotes"),
    "a time as a list": (lambda catalog: catalog.table("d.t").scan(timestamp=[]), "2026-01-31"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_refused_argument_says_what_to_pass(tmp_path: Path, name: str) -> None:
    call, advice = ARGUMENTS[name]
    catalog = penstock.Catalog(str(tmp_path))
    penstock.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT)", warehouse=str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        call(catalog)
    assert advice in (caught.value.hint or "")


# Errors that another error names as its reason, or that get a hint from the code that catches them: a catalog looks for
# the name that was meant. The error of a record says why the record is bad.
CAUGHT = {"CastFailed", "ConditionMisfit", "DecodeError", "TableMissing"}
# Checks of a call by other code of Penstock.
INTERNAL = {
    "table/buckets/route.py",
    "table/compaction/compact.py",
    "table/values/internal.py",
    "table/values/texts.py",
}


def test_an_error_has_a_hint_or_the_advice_of_its_class() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in INTERNAL
        for call in source_nodes(path)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in without_advice()
        if not {"hint", None} & {keyword.arg for keyword in call.keywords}
    ]
    assert found == []


@cache
def without_advice() -> set[str]:
    """Return the names of the classes whose errors need a hint of their own."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("errors.py")):
        import_module(".".join(("penstock", *path.relative_to(ROOT).with_suffix("").parts)))
    classes: list[type[PenstockError]] = [PenstockError]
    for kind in classes:
        classes += [below for below in kind.__subclasses__() if below not in classes]
    # A class whose constructor accepts no hint sets it.
    needing = (kind for kind in classes if kind.advice is None and "hint" in signature(kind).parameters)
    return {kind.__name__ for kind in needing} - CAUGHT
