"""`penstock.Pipeline`: the same description as a file's, and what its verbs answer in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.ingest.files.connector import FilesConfig
from penstock.pipelines.config import yaml_file
from tests.shop import Shop, insert


@pytest.fixture
def described(tmp_path: Path) -> dict[str, Any]:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1, "name": "<b>"}))
    return {
        "pipeline": {"name": "shop"},
        "source": {"type": "files", "path": shop.inbox, "value.format": "canal-json"},
        "sink": {"catalog": {"warehouse": tmp_path / "lake"}, "database": "ods", "table_options": {"bucket": 1}},
        "errors": {"isolate": True},
    }


def test_a_mapping_equals_the_same_file(described: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(
        f"pipeline: {{name: shop}}\nsource: {{type: files, path: {tmp_path}/in, value.format: canal-json}}\n"
        f"sink: {{catalog: {{warehouse: {tmp_path}/lake}}, database: ods, table-options: {{bucket: 1}}}}\n"
        "errors: {isolate: true}\n"
    )
    assert penstock.Pipeline(described).spec == yaml_file.load(path) == penstock.Pipeline(str(path)).spec
    assert repr(penstock.Pipeline(path)) == f"Pipeline(shop: files into {tmp_path}/lake)"
    assert penstock.Pipeline(path).checkpoint == f"{tmp_path}/lake/_penstock/shop"


def test_an_error_names_its_key_and_its_file_if_any(described: dict[str, Any]) -> None:
    described["source"]["value_formt"] = "x"
    with pytest.raises(penstock.ConfigError, match=r"value.format. is missing|value_formt") as caught:
        penstock.Pipeline(described)
    assert "file" not in caught.value.facts
    assert "line" not in caught.value.facts


def test_references_are_resolved_as_in_files(described: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE_FROM", "elsewhere")
    described["source"]["path"] = "${WHERE_FROM}"
    described["sink"]["catalog"]["options"] = {"s3.secret-key": "${NO_SUCH_KEY}"}
    spec = penstock.Pipeline(described).spec
    assert isinstance(spec.source, FilesConfig)
    assert spec.source.path == "elsewhere"
    assert spec.sink.catalog.options == {"s3.secret-key": "${NO_SUCH_KEY}"}


def test_a_check_without_problems_is_true(described: dict[str, Any], tmp_path: Path) -> None:
    found = penstock.Pipeline(described).check()
    assert found
    assert {item.about for item in found} >= {"options", "source", "warehouse", "tables", "checkpoint"}
    (tmp_path / "in").rename(tmp_path / "away")
    found = penstock.Pipeline(described).check()
    assert not found
    assert "to repair" in repr(found)
    assert "<td" in found._repr_html_()


def test_a_plan_shows_the_tables_it_would_create(described: dict[str, Any], tmp_path: Path) -> None:
    plan = penstock.Pipeline(described).plan()
    assert [(table.action, table.table) for table in plan.tables] == [("create", "ods.orders")]
    assert "create ods.orders  key id  id " in repr(plan)
    assert "create ods.orders</td>" in plan._repr_html_()
    assert not (tmp_path / "lake").exists()
