"""Options that the actions of databases share: what is missing, and what was probably meant."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.ingest.database.action_options import check_names


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"databasename": "shop"}, "set the option database-name; there is no option databasename"),
        ({"hostname": "db"}, "set the option database-name"),
        ({"table-name": "orders"}, "set the option database-name"),  # which is an option of its own
    ],
)
def test_a_missing_option_is_reported_with_the_one_that_was_misspelt(given: dict[str, str], hint: str) -> None:
    with pytest.raises(ConfigError, match=r"mysql_conf \[database-name\] must be specified") as caught:
        check_names(given, "mysql", ["database-name"], "table-name", names_table=False)
    assert caught.value.hint == hint
