"""The section `source` with connectors of other packages: one that works, and one that cannot be imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import extensions
from penstock.errors import ConfigError
from penstock.pipelines.commands.schema import json_schema
from penstock.pipelines.config import yaml_file
from tests.unit.test_extensions import install

PIPELINE = "source: {type: %s, url: 'http://feed', token: '${FEED_TOKEN}'}\nsink: {catalog: {warehouse: /w}}\n"
FEED = """
from typing import Literal
from penstock.ingest.connector import Connector, SourceConfig

class FeedConfig(SourceConfig):
    type: Literal["feed"]
    url: str
    token: str

class FeedConnector(Connector[FeedConfig]):
    name = "feed"
    config = FeedConfig
    references = frozenset({"token"})

    def open(self, config, request): ...

CONNECTOR = FeedConnector()
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("FEED_TOKEN", "hush")
    extensions._entries.cache_clear()
    yield tmp_path
    sys.modules.pop("feed_source", None)
    extensions._entries.cache_clear()


def test_section_is_validated_by_its_connector_and_keeps_its_references(site: Path) -> None:
    install(site, "feed_source", FEED, "penstock.connectors", feed="feed_source:CONNECTOR")
    source = yaml_file.read(PIPELINE % "feed").source
    assert type(source).__name__ == "FeedConfig"
    assert source.model_dump() == {"type": "feed", "url": "http://feed", "token": "${FEED_TOKEN}"}
    kinds = json_schema()["properties"]["source"]["discriminator"]["mapping"]
    assert sorted(kinds) == ["feed", "files", "kafka", "mongodb", "mysql", "postgres", "pulsar", "table"]


def test_error_in_the_section_has_its_line_and_the_nearest_key(site: Path) -> None:
    install(site, "feed_source", FEED, "penstock.connectors", feed="feed_source:CONNECTOR")
    with pytest.raises(ConfigError, match="`tokn` is unknown") as caught:
        yaml_file.read((PIPELINE % "feed").replace("token:", "tokn:"))
    assert caught.value.facts["key"] == "source.tokn"
    assert caught.value.facts["line"] == 1


def test_a_text_that_a_pattern_of_another_package_does_not_allow_is_named(site: Path) -> None:
    limited = FEED.replace("url: str", "url: str = Field(pattern='^ftp:')").replace(
        "from typing", "from pydantic import Field\nfrom typing"
    )
    install(site, "feed_source", limited, "penstock.connectors", feed="feed_source:CONNECTOR")
    with pytest.raises(ConfigError, match="'http://feed' is not allowed here: String should match") as caught:
        yaml_file.read(PIPELINE % "feed")
    assert caught.value.facts["key"] == "source.url"


def test_broken_connector_stops_only_pipelines_that_name_it(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(site, "feed_source", "import no_such_module", "penstock.connectors", feed="feed_source:CONNECTOR")
    with pytest.raises(ConfigError, match="no_such_module") as caught:
        yaml_file.read(PIPELINE % "feed")
    assert caught.value.facts["package"] == "feed_source 1.0"
    files = "source: {type: files, path: /in, value.format: json}\nsink: {catalog: {warehouse: /w}}\n"
    assert yaml_file.read(files).source.type == "files"
    assert sorted(json_schema()["properties"]["source"]["discriminator"]["mapping"]) == [
        "files",
        "kafka",
        "mongodb",
        "mysql",
        "postgres",
        "pulsar",
        "table",
    ]
    assert "event=extension_not_imported group=penstock.connectors name=feed" in caplog.text


@pytest.mark.parametrize(
    ("source", "message", "key"),
    [
        ("{path: /in}", "`type` is missing", "source.type"),
        ("{tyep: files, path: /in}", "`tyep` is unknown", "source.tyep"),
        ("{type: filez}", "unknown source type 'filez'", "source.type"),
        ("files", "a mapping", "source"),
    ],
)
def test_section_with_an_unknown_type_is_refused_with_its_line(source: str, message: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml_file.read(f"source: {source}\nsink: {{catalog: {{warehouse: /w}}}}\n")
    assert message in str(caught.value) or "keys and values" in str(caught.value)
    assert caught.value.facts["key"] == key
