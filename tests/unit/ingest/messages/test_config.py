"""Names of topics, which are given in one way."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.ingest.messages.config import MessagesConfig


def config(**keys: object) -> MessagesConfig:
    return MessagesConfig.model_validate({"type": "any", "value.format": "json", **keys})


@pytest.mark.parametrize("topics", ["a;b", "a, b", " a ;; b,", ["a", "b"]])
def test_topics_are_a_list_or_a_text_with_separators(topics: object) -> None:
    assert config(topic=topics).topic == ("a", "b")


@pytest.mark.parametrize("keys", [{}, {"topic": "a", "topic-pattern": "a.*"}, {"topic": " ; "}])
def test_topics_are_named_in_exactly_one_way(keys: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^some_conf must and can only set one of .*: topic,topic-pattern\.$"):
        config(**keys).check_topics("some_conf")


def test_names_or_a_pattern_are_accepted() -> None:
    config(topic="a").check_topics("some_conf")
    config(**{"topic-pattern": "a.*"}).check_topics("some_conf")


def test_pattern_that_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match=r"topic-pattern '\(' is not a regular expression"):
        config(**{"topic-pattern": "("}).check_topics("some_conf")


def test_format_is_needed() -> None:
    with pytest.raises(ValidationError, match=r"value\.format"):
        MessagesConfig.model_validate({"type": "any", "topic": "a"})
