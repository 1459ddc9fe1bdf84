"""The output of notebooks, and the example notebook, run in a separate kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pyarrow as pa
import pytest
from nbclient import NotebookClient

from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = Catalog(str(tmp_path))
    catalog.create_database("shop")
    table = catalog.create_table(
        "shop.orders", [("id", "INT NOT NULL")], primary_keys=["id"], options={"bucket": "1"}, comment="<b>bold</b>"
    )
    with table.writer(commit_user="etl") as writer:
        writer.write(pa.table({"id": pa.array([1, 2], pa.int32())}))
        writer.commit(identifier=7)
    return catalog


def html(shown: object) -> str:
    text: str = shown._repr_html_()  # type: ignore[attr-defined]
    return text


def test_output_has_its_documented_columns(catalog: Catalog) -> None:
    table = catalog.table("shop.orders")
    snapshot, plan = table.latest_snapshot, table.scan().plan()
    assert repr(snapshot).startswith("Snapshot(1 APPEND 2")
    assert repr(snapshot).endswith("records=2 (+2) by etl)")
    assert repr(plan).startswith("Plan(snapshot 1: 1 splits, 1 files, 2 rows")
    assert "INT NOT NULL" in html(table)
    assert '<td style="text-align:left">shop</td>' in html(catalog)
    assert "etl, 7" in html(snapshot)
    assert "as it is" in html(plan) or "merged by key" in html(plan)


def test_foreign_text_is_not_html(catalog: Catalog) -> None:
    table = catalog.table("shop.orders")
    assert isinstance(table, Table)
    assert "<b>bold</b>" not in html(table)
    assert "&lt;b&gt;bold&lt;/b&gt;" in html(table)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=280, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = json.dumps(notebook.cells)
    assert "Plan(snapshot 2" in shown
    assert "text/html" in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_without_its_output(path: Path) -> None:
    assert [cell for cell in json.loads(path.read_text())["cells"] if cell.get("outputs")] == []
