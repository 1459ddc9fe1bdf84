from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError


def test_a_table_that_appears_during_a_rename_is_not_called_files_without_a_table(tmp_path: Path) -> None:
    """A rename that was given up may arrive late. Whoever deletes the folder then has deleted the table."""
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("d")
    for name in ("d.t", "d.u"):
        catalog.create_table(name, [("k", "INT NOT NULL")], ["k"], options={"bucket": "1"})
    with pytest.raises(ConfigError, match="a table with the new name has appeared") as caught:
        catalog.backend.rename_table("d.t", "d.u")  # without the check of the new name that comes before
    assert "delete" not in (caught.value.hint or "")
