"""Which golden stories can be told to ours."""

from __future__ import annotations

from tests.golden.cases import case_names

# Not steps of a writer: what tells of a table's readers.
BYSTANDERS = {"consumer"}


def story_names() -> list[str]:
    """The tables that pypaimon wrote have no story."""
    return [name for name in case_names() if not name.startswith("py_")]
