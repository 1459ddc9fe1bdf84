"""`--catalog-conf` of the commands on tables: kinds of catalogs that work, and those that each command refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.pipelines.commands.main import main
from penstock.pipelines.commands.table_commands import REFUSED, TABLE_COMMANDS
from tests.rest_server import running

# What a command needs besides the table that it is about.
NEEDED = {
    "compact-database": ["--including-databases", "shop"],
    "create-branch": ["--branch-name", "b"],
    "create-tag": ["--tag-name", "t"],
    "create-tag-from-timestamp": ["--tag", "t", "--timestamp", "1"],
    "create-tag-from-watermark": ["--tag", "t", "--watermark", "1"],
    "delete": ["--where", "id = 1"],
    "delete-branch": ["--branch-name", "b"],
    "delete-tag": ["--tag-name", "t"],
    "drop-partition": ["--partition", "dt=a"],
    "fast-forward": ["--branch-name", "b"],
    "mark-partition-done": ["--partition", "dt=a"],
    "merge-into": ["--source-table", "shop.orders", "--on", "orders.id = s.id", "--merge-actions", "matched-delete"],
    "rename-tag": ["--tag-name", "t", "--target-tag-name", "u"],
    "replace-tag": ["--tag-name", "t"],
    "reset-consumer": ["--consumer-id", "c"],
    "rollback-to": ["--version", "1"],
    "rollback-to-timestamp": ["--timestamp", "1"],
}
WORDS = {
    "tables": [],
    "repair": [],
    "show": ["shop.orders"],
    "sql": ["select * from shop.orders"],
    "compact-database": [],
}


def make_orders(folder: Path) -> None:
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [("dt", "STRING"), ("id", "INT")], ["dt", "id"], ["dt"], {"bucket": "1"})


@pytest.mark.parametrize("command", sorted(TABLE_COMMANDS.keys() - REFUSED.keys()))
def test_a_metastore_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    make_orders(tmp_path)
    about = WORDS.get(command, ["--database", "shop", "--table", "orders"])
    conf = ["--warehouse", str(tmp_path), "--catalog-conf", "metastore=glue", "--catalog-conf", "uri=http://h:9083"]
    code = main([command, *about, *conf, *NEEDED.get(command, [])])
    stderr = capsys.readouterr().err
    assert code == 2, stderr
    assert "metastore = glue is not supported" in stderr


def test_a_target_catalog_with_a_metastore_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_orders(tmp_path)
    words = ["clone", "--warehouse", str(tmp_path), "--database", "shop", "--table", "orders", "--target-database", "o"]
    assert main([*words, "--target-catalog-conf", "metastore=glue"]) == 2
    assert "metastore = glue is not supported" in capsys.readouterr().err


def test_every_entry_point_of_the_python_api_refuses_a_metastore(tmp_path: Path) -> None:
    make_orders(tmp_path)
    path, glue = str(tmp_path / "shop.db" / "orders"), {"metastore": "glue"}
    for opened in (
        lambda: penstock.Catalog(str(tmp_path), glue),
        lambda: penstock.open_table(path, glue),
        lambda: penstock.create_table(f"{path}2", [("id", "INT")], glue),
    ):
        with pytest.raises(penstock.ConfigError, match="metastore = glue is not supported"):
            opened()


def test_a_misspelt_option_of_a_catalog_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(penstock.ConfigError, match="did you mean metastore"):
        penstock.Catalog(str(tmp_path), {"metstore": "hive"})
    assert main(["tables", str(tmp_path), "--catalog-conf", "lock-enabled=true"]) == 2
    assert "did you mean lock.enabled?" in capsys.readouterr().err


def test_options_of_a_catalog_without_effect_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from penstock.storage import catalog_options

    catalog_options._warn.cache_clear()
    for _ in range(2):
        penstock.Catalog(str(tmp_path), {"metastore": "filesystem", "lock.enabled": "true"})
    assert [record.getMessage() for record in caplog.records] == [
        "event=catalog_option_without_effect option=lock.enabled"
        ' instead="commits need no lock: a snapshot file is created only if it does not exist"'
    ]


QUICK = {"compact", "delete"}  # the others take as long, and run in `make test`
COMMANDS = sorted(TABLE_COMMANDS.keys() - REFUSED.keys())


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_commands_have_the_same_results_with_other_catalogs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    words = [command, *WORDS.get(command, ["--database", "shop", "--table", "orders"]), *NEEDED.get(command, [])]
    outcomes = []
    with running(tmp_path / "rest") as (_, server):
        for kind in ("filesystem", "jdbc", "rest"):
            folder = tmp_path / kind
            folder.mkdir(exist_ok=True)
            conf = {"jdbc": {"uri": f"jdbc:sqlite:{folder}/names.sqlite"}, "rest": server}.get(kind, {})
            conf = {"metastore": kind, **conf}
            warehouse = "lake" if kind == "rest" else str(folder / "lake")
            catalog = penstock.Catalog(warehouse, conf)
            catalog.create_database("shop")
            columns, key, options = [("dt", "STRING"), ("id", "INT")], ["dt", "id"], {"bucket": "1"}
            table = catalog.create_table("shop.orders", columns, key, ["dt"], options)
            with table.writer() as writer:
                writer.write(pa.table({"dt": ["a"], "id": pa.array([1], pa.int32())}))
                writer.commit()
            pairs = [word for name, value in conf.items() for word in ("--catalog-conf", f"{name}={value}")]
            code = main([*words, "--warehouse", warehouse, *pairs])
            error = capsys.readouterr().err.replace(table.path, "TABLE").replace(warehouse, "LAKE")
            outcomes.append(
                (code, [line for line in error.splitlines() if "event=catalog_option_without_effect" not in line])
            )
    if command == "copy-files":
        assert "cannot be copied file by file" in outcomes.pop()[1][0]
    assert outcomes == [outcomes[0]] * len(outcomes)


def test_a_clone_without_a_target_is_made_in_the_same_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    conf = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.sqlite"}
    catalog = penstock.Catalog(str(tmp_path / "lake"), conf)
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [("id", "INT")])
    pairs = [word for name, value in conf.items() for word in ("--catalog-conf", f"{name}={value}")]
    words = ["--warehouse", str(tmp_path / "lake"), "--database", "shop", "--table", "orders", *pairs]
    assert main(["clone", *words, "--target-table", "cloned"]) == 0
    assert main(["copy-files", *words, "--target-table", "copied"]) == 0
    assert catalog.tables("shop") == ["cloned", "copied", "orders"]


@pytest.mark.parametrize("words", [["tables"], ["compact-database"]], ids=" ".join)
def test_an_empty_catalog_in_a_database_is_no_missing_warehouse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    conf = ["--catalog-conf", "metastore=jdbc", "--catalog-conf", f"uri=jdbc:sqlite:{tmp_path}/names.db"]
    code = main([*words, "--warehouse", str(tmp_path / "warehouse"), *conf])
    out = capsys.readouterr()
    assert code == 0, out.err
    assert "does not exist" not in out.err
    assert main([*words, "--warehouse", str(tmp_path / "warehouse")]) == 2  # a folder that is not there is one
    assert "the warehouse does not exist" in capsys.readouterr().err
