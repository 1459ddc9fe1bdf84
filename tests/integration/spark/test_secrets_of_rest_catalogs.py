"""Secrets that are plain values of a pipeline with Spark into a REST catalog: the token, and keys of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import rest_server
from tests.integration.kafka.test_formats_alike import aliyun
from tests.integration.secrets_in_spark import HUSH, places_with_secrets

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FILES = "\nsource: {type: files, path: INBOX, value.format: aliyun-json}\n"
REST = (
    "metastore: rest, options: {uri: 'URI', token.provider: bear, token: HUSH, s3.access-key: AK, s3.secret-key: HUSH}"
)


def test_no_place_shows_plain_secrets_of_a_rest_catalog(tmp_path: Path) -> None:
    inbox, run = tmp_path / "inbox", tmp_path / "run"
    inbox.mkdir()
    run.mkdir()
    (inbox / "1.json").write_text(aliyun("INSERT", 1, v="a"))
    with rest_server.running(run / "lake") as (server, options):
        server.token = HUSH
        catalog = REST.replace("URI", options["uri"])
        assert places_with_secrets(FILES.replace("INBOX", str(inbox)), run, catalog, "lake") == []
        assert [name for _, name in server.tables] == ["t"]
        assert any("commit" in target for _, target, _ in server.requests)
        # The header with the token is the only place for it.
        assert HUSH not in str(server.requests)
        assert HUSH not in str(
            {key: text for headers in server.headers for key, text in headers.items() if key != "authorization"}
        )
