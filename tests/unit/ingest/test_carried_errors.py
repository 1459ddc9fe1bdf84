from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from penstock.errors import PositionLost, SourceError
from penstock.ingest.carried_errors import ErrorMark

MARK = ErrorMark()


def test_an_error_is_restored_from_its_text_with_facts_and_hint() -> None:
    with pytest.raises(RuntimeError) as caught, MARK.carrying():
        raise PositionLost("gone", topic="t", offset=4, hint="go on")
    shown = Exception(f"java.lang.X: Traceback\n  File ...\n{caught.value}\n\tat org.apache.spark.Y")
    error = MARK.recovered(shown)
    assert isinstance(error, PositionLost)
    assert (error.message, error.facts, error.hint) == ("gone", {"topic": "t", "offset": "4"}, "go on")


def test_a_restored_error_keeps_whether_it_may_be_retried() -> None:
    with pytest.raises(RuntimeError) as caught, MARK.carrying():
        raise SourceError("away", retryable=True)
    error = MARK.recovered(caught.value)
    assert isinstance(error, SourceError)
    assert error.retryable


def test_an_os_error_is_restored() -> None:
    with pytest.raises(RuntimeError) as caught, MARK.carrying():
        raise OSError(28, "No space left on device", "/lake/a")
    error = MARK.recovered(Exception(f"Reason: x\n{caught.value}\nmore"))
    assert isinstance(error, OSError)
    assert (error.errno, error.strerror, error.filename) == (28, "No space left on device", "/lake/a")


def test_an_error_of_an_unloaded_class_is_restored_as_its_nearest_base() -> None:
    class Elsewhere(PositionLost):
        pass

    with pytest.raises(RuntimeError) as caught, MARK.carrying():
        raise Elsewhere("gone")
    error = MARK.recovered(Exception(str(caught.value).replace(Elsewhere.__qualname__, "Unknown")))
    assert type(error) is PositionLost


def test_errors_of_other_classes_are_not_restored() -> None:
    assert MARK.recovered(ValueError("x")) is None


@pytest.mark.parametrize("head", ["penstock-error:", "penstock-error ", f"penstock-error {'0' * 32} "])
def test_text_of_the_source_is_not_read_as_an_error(head: str, tmp_path: Path) -> None:
    """Whatever a record, a name or a path says: without the run's mark it is neither believed nor run."""
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w')"
    for fields in (["pydantic", "create_model", "M", code, {}, False], {"kinds": ["penstock.errors.ConfigError"]}):
        payload = head + json.dumps(fields)
        for text in (payload, f"x\n{payload}\ny", f"[Errno 28] No space left on device: '/wh/{payload}/data-1'"):
            assert MARK.recovered(RuntimeError(text)) is None
            with pytest.raises(RuntimeError) as caught, MARK.carrying():
                raise SourceError(text, column=payload, hint=payload)
            error = MARK.recovered(Exception(f"a\n{caught.value}\n\tat b\n{payload}"))
            assert type(error) is SourceError
            assert (error.message, error.facts["column"], error.hint) == (text, payload, payload)
    assert not ran.exists()


def test_a_kind_is_never_imported_or_called(tmp_path: Path) -> None:
    """Even a marked line names only classes of our own that are loaded already."""
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')")
    line = {"kinds": ["planted.Error", "pydantic.create_model", "builtins.exec"], "message": "m", "hint": None}
    text = f"penstock-error {MARK.token} {json.dumps(line | {'facts': {}, 'retryable': False})}"
    error = MARK.recovered(Exception(text))
    assert type(error).__name__ == "PenstockError"
    assert "planted" not in sys.modules


def test_the_prefix_is_not_shown() -> None:
    assert MARK.token not in repr(MARK)
    assert ErrorMark().token != MARK.token
