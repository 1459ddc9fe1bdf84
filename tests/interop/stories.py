"""Which golden stories can be told to ours."""

from __future__ import annotations

from tests.golden.cases import case_names
from tests.simulation.story import Story

# Not steps of a writer: what tells of a table, or of its readers.
BYSTANDERS = {"analyze", "consumer"}


def story_names() -> list[str]:
    """The tables that pypaimon wrote have no story."""
    return [name for name in case_names() if not name.startswith("py_")]


def gap(story: Story) -> str | None:
    """What ours cannot write yet."""
    options = story.options
    if options.get("manifest.format", "avro") != "avro":
        return "manifests in another format than Avro"
    return None
