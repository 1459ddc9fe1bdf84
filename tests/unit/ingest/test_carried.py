from __future__ import annotations

import pytest

from penstock.errors import PositionLost, SourceError
from penstock.ingest.carried import carrying, recovered


def test_an_error_comes_back_from_its_text_with_facts_and_hint() -> None:
    with pytest.raises(RuntimeError) as caught, carrying():
        raise PositionLost("gone", topic="t", offset=4, hint="go on")
    shown = Exception(f"java.lang.X: Traceback\n  File ...\n{caught.value}\n\tat org.apache.spark.Y")
    error = recovered(shown)
    assert isinstance(error, PositionLost)
    assert (error.message, error.facts, error.hint) == ("gone", {"topic": "t", "offset": "4"}, "go on")


def test_whether_it_may_be_retried_survives() -> None:
    with pytest.raises(RuntimeError) as caught, carrying():
        raise SourceError("away", retryable=True)
    error = recovered(caught.value)
    assert error is not None
    assert error.retryable


def test_an_error_of_others_is_not_claimed() -> None:
    assert recovered(ValueError("x")) is None
