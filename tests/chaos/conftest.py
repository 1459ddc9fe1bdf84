from __future__ import annotations

from tests.integration.kafka.conftest import broker

__all__ = ["broker"]
