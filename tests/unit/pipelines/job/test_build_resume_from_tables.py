"""Sources that cannot continue with a new checkpoint at the position of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api.check_places import check_tables
from penstock.pipelines.config import yaml_file
from penstock.pipelines.job.build import ready
from tests.here import run
from tests.shop import Shop, insert

SECTIONS = {
    "files": "path: inbox, value.format: json",
    "mysql": "hostname: '127.0.0.1', port: 1, username: u, password: p, tables: [a.b]",
}


@pytest.mark.parametrize("kind", SECTIONS)
def test_resume_from_tables_is_refused_before_the_source_gets_a_request(kind: str) -> None:
    spec = yaml_file.read(
        "pipeline: {resume-from-tables: true}\n"
        f"source: {{type: {kind}, {SECTIONS[kind]}}}\n"
        "sink: {catalog: {warehouse: /w}, database: ods}\n"
    )
    with pytest.raises(ConfigError, match=f"type {kind} needs its checkpoint"):
        ready(spec)


def test_check_does_not_advise_what_a_run_refuses(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec())
    [found] = [finding for finding in check_tables(shop.spec(checkpoint="other")) if finding.level == "error"]
    assert found.fix == "use the old checkpoint, or add  --accept-replay"
