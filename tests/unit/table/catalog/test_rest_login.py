"""The ways to log in to a REST server."""

from __future__ import annotations

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.catalog.rest_login import check_login


def test_a_token_alone_is_a_bearer_token() -> None:
    check_login({"token": "t"})
    check_login({"token": "t", "token.provider": " Bear "})


@pytest.mark.parametrize("provider", ["", "kerberos", "dlf"])
def test_other_providers_are_refused_by_name(provider: str) -> None:
    options = {"metastore": "rest", "uri": "http://host", "token.provider": provider}
    with pytest.raises(ConfigError, match=rf"token.provider = {provider}") as caught:
        penstock.Catalog("lake", options)
    assert caught.value.facts["option"] == "token.provider"
