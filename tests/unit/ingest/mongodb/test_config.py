"""The section of a pipeline file, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.ingest.mongodb.config import MongoConfig, path_of


def section(**keys: Any) -> MongoConfig:
    return MongoConfig.model_validate({"type": "mongodb", "hosts": "db:27017", **keys})


def test_smallest_section_captures_everything_from_the_beginning() -> None:
    found = section()
    assert (found.database, found.collection, found.startup.mode, found.documents.mode) == (
        ".*",
        ".*",
        "initial",
        "dynamic",
    )
    assert found.default_id_generation


def test_unknown_startup_mode_has_the_text_of_the_peer() -> None:
    with pytest.raises(ValidationError) as caught:
        section(startup={"mode": "x"})
    assert (
        "Unknown scan.startup.mode='x'. Valid scan.startup.mode for MongoDB CDC are "
        "[initial, latest-offset, timestamp, snapshot]" in str(caught.value)
    )


@pytest.mark.parametrize("startup", [{"mode": "timestamp"}, {"timestamp-millis": 5}])
def test_mode_timestamp_and_its_time_belong_together(startup: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="belongs to"):
        section(startup=startup)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("$.a", ("a",)),
        ("$.a.b_c[0].d", ("a", "b_c", "0", "d")),
        ("$['unit price'][12]", ("unit price", "12")),
        ('$.a["x.y"]', ("a", "x.y")),
    ],
)
def test_path_of_names_and_numbers(text: str, path: tuple[str, ...]) -> None:
    assert path_of(text) == path


@pytest.mark.parametrize("text", ["a.b", "$", "$..a", "$.a[*]", "$.a[?(@.b)]", "$.a.length()", "$.a[-1]"])
def test_paths_with_more_than_names_and_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a path of names and numbers"):
        path_of(text)


@pytest.mark.parametrize(
    "documents",
    [
        {"mode": "specified"},
        {"mode": "specified", "field.name": ["a", "b"], "parser.path": ["$.a"]},
        {"field.name": ["a"], "parser.path": ["$.a"]},
    ],
)
def test_specified_columns_need_a_path_each(documents: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"schema\.start\.mode=specified"):
        section(documents=documents)
