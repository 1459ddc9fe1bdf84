"""Nothing that a record, a name, a file, a checkpoint, an option or a registry says is run as code.

Read from the sources: every call that could do it, with the reason why that one cannot.
"""

from __future__ import annotations

import ast
import base64
import json
import pickle
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.errors import PenstockError
from penstock.formats.debezium.schema_registry import SchemaRegistry
from penstock.pipelines.job import build
from tests.shop import Shop
from tests.source_trees import source_nodes
from tests.unit.formats.support import read

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("formats", "ingest", "pipelines", "schema_evolution", "storage", "table")
SUSPECT = {"eval", "exec", "compile", "__import__", "import_module", "load_module", "run_path", "run_module", "system"}
SUSPECT |= {"popen", "read_pickle", "create_model", "spec_from_file_location", "setattr", "delattr"}
LOADERS = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
MODULES_THAT_UNPICKLE = {
    # Results of our own tasks, in a column of their own: a report is never mistaken for rows of a table.
    "pipelines/tasks/batch_result.py",
    "pipelines/driver/first_sample.py",
    # A copy of the reader of batches, of bytes that were made in the line before.
    "pipelines/driver/small_batches.py",
    # Results of units of an action, in the only column of the job that ran them.
    "pipelines/spark/units.py",
    # The same for statements of the catalog; the units come by a file that only this user can write and read.
    "pipelines/spark_catalog/session_units.py",
    "pipelines/spark_source/unit_results.py",
    # The stream of a source, as bytes inside the class of the source, which Spark pickles itself.
    "ingest/spark_stream.py",
}
ALLOWED = Counter(
    {
        # Names out of tables in these very modules.
        ("ingest/mysql/server/login.py", "getattr"): 1,
        ("penstock.py", "import_module"): 1,
        ("penstock.py", "getattr"): 1,
        ("pipelines/commands/main.py", "import_module"): 1,
        # Literals of a table of built-in objects.
        ("extensions.py", "import_module"): 1,
        ("extensions.py", "getattr"): 1,
        # Literals, imported late because they are optional.
        ("table/merge/aggregates/bitmaps.py", "import_module"): 1,
        ("table/catalog/jdbc_database.py", "import_module"): 1,
        # The places of the kinds of catalogs: built-in, or registered by installed packages.
        ("table/catalog/registry.py", "import_module"): 1,
        ("table/catalog/registry.py", "getattr"): 1,
        # Fields of dataclasses of ours.
        ("ingest/mysql/captured_tables.py", "getattr"): 1,
        # Names of capabilities, in this very tree.
        ("ingest/connectors.py", "getattr"): 1,
        ("table/read/time_travel.py", "getattr"): 1,
        # Names of fields of a schema, in this very expression.
        ("table/catalog/rest_commits.py", "getattr"): 2,
    }
)


def sources() -> list[Path]:
    files = [*ROOT.glob("*.py"), *(path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py"))]
    assert len(files) > 200
    return files


def called(node: ast.Call) -> tuple[str, str]:
    """The object and the name: ("pickle", "loads"), ("", "eval")."""
    match node.func:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return owner, name
        case ast.Attribute(attr=name):
            return "?", name
        case ast.Name(id=name):
            return "", name
    return "", ""


def is_suspect(node: ast.Call) -> bool:
    owner, name = called(node)
    if name == "getattr" and owner == "":
        return not isinstance(node.args[1], ast.Constant)
    if owner == "re" and name == "compile":
        return False
    if name == "system":
        return owner == "os"
    if name == "compile":
        return owner == ""
    if name == "load" and owner == "yaml":
        return True
    return name in SUSPECT or any(word.arg in {"allow_pickle", "shell"} for word in node.keywords)


@pytest.mark.slow
def test_no_text_is_run_or_imported() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for path in sources():
        for node in source_nodes(path):
            if isinstance(node, ast.Call) and is_suspect(node):
                found[str(path.relative_to(ROOT)), called(node)[1]] += 1
    assert found == ALLOWED


@pytest.mark.slow
def test_only_results_and_streams_of_our_own_tasks_are_unpickled() -> None:
    found = set()
    for path in sources():
        name = str(path.relative_to(ROOT))
        for node in source_nodes(path):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in LOADERS, f"{name}: import {node.module} whole, so that its use is seen here"
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr="loads" | "load" | "Unpickler") if owner in LOADERS:
                    found.add(name)
    assert found == MODULES_THAT_UNPICKLE


class Planted:
    """Makes the file where it is unpickled."""

    def __init__(self, ran: Path) -> None:
        self.ran = ran

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.ran), "w")


def payloads(ran: Path) -> list[str]:
    code = f"open({str(ran)!r}, 'w')"
    return [
        f"penstock-error:{json.dumps(['pydantic', 'create_model', 'M', code, {}, False])}",
        f"penstock-error {'0' * 32} {json.dumps({'kinds': ['builtins.exec'], 'message': code})}",
        f"!!python/object/apply:builtins.open ['{ran}', 'w']",
        pickle.dumps(Planted(ran)).decode("latin-1"),
        base64.b64encode(pickle.dumps(Planted(ran))).decode(),
        code,
    ]


def test_the_payloads_are_effective(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Planted(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


def test_answers_of_a_registry_are_data(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for payload in payloads(ran):
        named = {"type": "record", "name": payload, "fields": [{"name": payload, "type": payload, "default": payload}]}
        for schema in (payload, json.dumps(payload), json.dumps(named)):

            class Answering(SchemaRegistry):
                answer: ClassVar[dict[str, object]] = {"schema": schema}

                def _ask(self, path: str) -> dict[str, object]:
                    return self.answer

            decoded = read("debezium-avro", b"\0\0\0\0\1" + b"x" * 20, registry=Answering("http://nowhere"))
            assert len(decoded.bad) == 1
    assert not ran.exists()


@pytest.mark.parametrize("spelt", ["text", "json"])
def test_files_of_a_checkpoint_are_data(tmp_path: Path, spelt: str) -> None:
    """The follower list, what is parked, and what status reads: each is refused or passed over, and nothing runs."""
    ran = tmp_path / "ran"
    shop = Shop(tmp_path)
    folder = Path(build.job(shop.spec()).checkpoint)
    for payload in payloads(ran):
        body = payload.encode("latin-1") if spelt == "text" else json.dumps([payload]).encode()
        for name in ("penstock-follows.json", "parked/0.json", "offsets/0", "commits/0", "metadata", "status.json"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(body)
        own = build.job(shop.spec())._own_checkpoint
        for read_one in (own.follows, lambda: build.job(shop.spec()).parking().tables):
            with suppress(ValueError, TypeError, KeyError, PenstockError):
                read_one()
    assert not ran.exists()
