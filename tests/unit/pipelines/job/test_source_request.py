"""Secrets travel as references: what ends in options, event log or checkpoint, and what is printed, holds none."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.pipelines.config import yaml_file
from penstock.pipelines.job import build
from penstock.pipelines.job.source_request import open_source

HUSH = "hush-hush-7391"
KAFKA = """
source:
  type: kafka
  topic: t
  value.format: json
  properties: {bootstrap.servers: "k:9092", sasl.password: "${TEST_SECRET}", ssl.key.password: {secret: FILE}}
sink: {catalog: {warehouse: /w, options: {s3.secret-key: "${TEST_SECRET}"}}, database: ods}
observe: {notify: {webhook: "https://chat/${TEST_SECRET}"}}
"""
MYSQL = """
source: {type: mysql, hostname: h, username: u, password: "${TEST_SECRET}", tables: [shop.*]}
sink: {catalog: {warehouse: /w, options: {s3.secret-key: {secret: FILE}}}, database: ods}
"""


@pytest.mark.parametrize("text", [KAFKA, MYSQL], ids=["kafka", "mysql"])
def test_objects_sent_to_tasks_contain_only_references(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_SECRET", HUSH)
    (tmp_path / "secret").write_text(HUSH)
    spec = yaml_file.read(text.replace("FILE", str(tmp_path / "secret")))
    packed = pickle.dumps((open_source(spec), build.mapping_of(spec, build.job_warehouse(spec))))
    assert b"TEST_SECRET" in packed
    assert HUSH.encode() not in packed
    assert HUSH not in repr(spec)
    assert HUSH not in spec.model_dump_json()


def test_a_password_by_reference_is_resolved_for_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.ingest.mysql.config import MySqlConfig
    from penstock.ingest.mysql.settings import server_address

    monkeypatch.setenv("TEST_SECRET", HUSH)
    source = yaml_file.read(MYSQL.replace("{secret: FILE}", "x")).source
    assert isinstance(source, MySqlConfig)
    assert server_address(source).password.reveal() == HUSH
    assert HUSH not in repr(server_address(source))
