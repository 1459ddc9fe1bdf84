"""The reference's own message samples become the tables it makes of them, by Paimon's flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.files.connector import FilesConfig
from penstock.pipelines.config.model import PipelineSpec
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.here import run
from tests.samples import Sample, check, samples
from tests.sync_flags import spec_of_action

# Keys travel in records, which files do not have; the real broker's tests carry this one.
WITH_KEYS = {"debezium-bson/update"}


@pytest.mark.parametrize("sample", [item for item in samples() if item.id not in WITH_KEYS], ids=lambda item: item.id)
def test_sample_messages_become_the_expected_tables(sample: Sample, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    warehouse = CatalogSettings.of(f"{tmp_path}/warehouse", {})
    for number, step in enumerate(sample.steps):
        for topic, messages in step.feed:
            (inbox / f"{number}-{topic}").write_bytes(b"\n".join(messages))
        run(spec_of(sample, tmp_path))
        tables = {name.partition(".")[2] for name in warehouse.tables("ods")}
        assert tables == set(step.tables)
        for name, expected in step.tables.items():
            check(Table(warehouse.store(f"ods.{name}")), expected, f"{number}-{step.feed[0][0]}")


def spec_of(sample: Sample, folder: Path) -> PipelineSpec:
    """The pipeline of the flags, reading the messages from files."""
    words = [
        *sample.arguments,
        *("--warehouse", f"{folder}/warehouse", "--database", "ods", "--checkpoint", f"{folder}/checkpoint"),
        *("--kafka-conf", "topic=t", "--kafka-conf", "properties.bootstrap.servers=none:1"),
        *("--kafka-conf", f"value.format={sample.format}", "--until-caught-up"),
    ]
    spec = spec_of_action(sample.action, words)
    source = FilesConfig.model_validate(
        {"type": "files", "path": str(folder / "in"), "value.format": sample.format, "order": "name"}
    )
    return spec.model_copy(update={"source": source})
