"""Objects that other packages add by entry points, from packages as pip installs them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import extensions
from penstock.errors import ConfigError
from penstock.extensions import Extensions
from penstock.formats import FORMATS, decode, format_named
from penstock.formats.change import Messages
from tests.unit.formats.support import messages, rows


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions._entries.cache_clear()
    yield tmp_path
    sys.modules.pop("acme_formats", None)
    extensions._entries.cache_clear()


def install(site: Path, module: str, code: str, group: str, **entries: str) -> None:
    """Put a package where Python finds it: its module, and its metadata with the entry points."""
    (site / f"{module}.py").write_text(code)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = [f"[{group}]", *(f"{name.replace('_', '-')} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


ACME = """
from penstock.formats import plain_json
from penstock.formats.change import Messages
from penstock.formats.message_format import Format

def _decode(messages, options):
    values = [None if one is None else one.removeprefix(b"ACME ") for one in messages.values]
    return plain_json.decode(Messages(values, messages.offsets), options)

ACME = Format("acme-json", _decode, needs_key=True)
"""


def test_format_of_another_package_is_found_and_decodes(site: Path) -> None:
    install(site, "acme_formats", ACME, "penstock.formats", acme_json="acme_formats:ACME")
    assert "acme-json" in FORMATS.names()
    assert format_named("ACME-json").needs_key
    given = messages({"id": 1})
    found = decode("acme-json", Messages([b"ACME " + (value or b"") for value in given.values], given.offsets))
    assert rows(found) == [("+I", {"id": "1"})]


def test_unknown_format_names_all_formats(site: Path) -> None:
    install(site, "acme_formats", ACME, "penstock.formats", acme_json="acme_formats:ACME")
    with pytest.raises(ConfigError) as caught:
        format_named("acme-xml")
    assert "acme-json" in str(caught.value.hint)
    assert "canal-json" in str(caught.value.hint)


def test_broken_package_is_reported_when_its_format_is_used(site: Path) -> None:
    install(site, "acme_formats", "import no_such_module_here", "penstock.formats", acme_json="acme_formats:ACME")
    assert format_named("json").name == "json"
    with pytest.raises(ConfigError, match="no_such_module_here") as caught:
        format_named("acme-json")
    assert caught.value.facts["package"] == "acme_formats 1.0"


def test_object_of_another_kind_is_refused(site: Path) -> None:
    install(site, "acme_formats", "ACME = 7", "penstock.formats", acme_json="acme_formats:ACME")
    with pytest.raises(ConfigError, match="is not a Format"):
        format_named("acme-json")


def test_built_in_name_cannot_be_replaced(site: Path) -> None:
    install(site, "acme_formats", "def ACME(): ...", "penstock.formats", json="acme_formats:ACME")
    assert format_named("json").name == "json"
    assert FORMATS.names().count("json") == 1


def test_built_in_object_is_imported_when_it_is_used() -> None:
    found = Extensions("penstock.nothing", str, {"separator": "os:sep", "missing": "no_such_module_here:x"})
    assert found.names() == ["separator", "missing"]
    assert found.find("separator") == "/"
    with pytest.raises(ImportError):
        found.find("missing")
