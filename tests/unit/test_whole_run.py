"""A whole run gives the few tests that failed a second try, and names those that passed then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.whole_run import MOST_AGAIN, whole_run

ROOT = Path(__file__).resolve().parents[2]
# Each of these fails until its file exists, and makes it.
FAILS_ONCE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("name", {names})
def test_fails_once(name):
    once = Path(__file__).with_name(name)
    existed = once.exists()
    once.touch()
    assert existed

def test_passes():
    assert True
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of tests in a folder that knows the options of this project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / '.build'}:{ROOT}")
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-p tests.conftest -c {ROOT / 'pyproject.toml'} --rootdir {tmp_path}")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "test_some.py"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "workers"])
def test_a_test_that_passes_alone_does_not_fail_the_run(
    file: Path, capfd: pytest.CaptureFixture[str], workers: list[str]
) -> None:
    file.write_text(FAILS_ONCE.format(names=["first one", "x"]))
    assert whole_run(["-q", *workers, str(file)]) == 0
    printed = capfd.readouterr().out
    assert "FAILED ONCE" in printed
    assert "test_some.py::test_fails_once[first one] failed in the whole run, and passed alone" in printed
    assert "assert existed" in printed


@pytest.mark.slow
def test_a_test_that_fails_twice_fails_the_run(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text("def test_fails(): assert False\n")
    assert whole_run(["-q", str(file)]) == 1
    printed = capfd.readouterr().out
    assert "FAILED ONCE" not in printed
    assert printed.count("1 failed") == 2


def test_many_failures_fail_the_run_at_once(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text(FAILS_ONCE.format(names=[str(number) for number in range(MOST_AGAIN + 1)]))
    assert whole_run(["-q", str(file)]) == 1
    assert "second time" not in capfd.readouterr().out


def test_a_run_that_is_late_fails_without_a_second_run(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text(FAILS_ONCE.format(names=["x"]))
    assert whole_run(["-q", str(file)], limit_s=0) == 1
    assert "second time" not in capfd.readouterr().out


def test_an_error_in_collection_is_no_failure_of_a_test(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text("import nothing_of_this_name\n")
    assert whole_run(["-q", str(file)]) == 2
    assert "second time" not in capfd.readouterr().out
