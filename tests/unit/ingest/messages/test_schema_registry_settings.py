from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.ingest.messages.schema_registry_settings import RegistrySettings


def test_options_of_a_registry_are_checked() -> None:
    assert RegistrySettings.of({}) is None
    assert RegistrySettings.of({"url": "http://r", "ssl.ca.location": "/ca"}) is not None
    with pytest.raises(ConfigError, match="urk is unknown"):
        RegistrySettings.of({"urk": "http://r"})
    with pytest.raises(ConfigError, match="url must be specified"):
        RegistrySettings.of({"ssl.ca.location": "/ca"})
