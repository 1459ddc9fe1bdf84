"""The key `freshness`: where it may stand, and what contradicts it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec

KAFKA = {"type": "kafka", "topic": "t", "properties": {"bootstrap.servers": "x:1"}, "value.format": "canal-json"}
MYSQL = {"type": "mysql", "hostname": "x", "username": "u", "password": "p", "database-name": "shop"}
FILES = {"type": "files", "path": "/in", "value.format": "canal-json"}


def route(tables: str, freshness: str | None = None, sink: str = "ods.{table}") -> dict[str, str]:
    return {"source-table": tables, "sink-table": sink, **({"freshness": freshness} if freshness else {})}


def spec(*routes: dict[str, str], source: Any = KAFKA, pipeline: Any = None, **sink: Any) -> PipelineSpec:
    made = {"catalog": {"warehouse": "/w"}, "database": "ods", **{key.replace("_", "-"): sink[key] for key in sink}}
    return parsed({"source": source, "pipeline": pipeline or {}, "route": list(routes), "sink": made})


def test_the_first_route_that_matches_a_table_decides() -> None:
    rules = spec(route("shop.log_.*", "10m"), route("shop.hot", "0s"), route("shop.x.*"), freshness="1h").freshness
    tables = ("log_1", "hot", "x1", "other")
    assert [rules.interval("shop", table) for table in tables] == [600_000, 0, 3_600_000, 3_600_000]
    assert rules.intervals == (600_000, 3_600_000)
    assert rules.interval(None, None) == 0  # messages that name no table are read once


def test_without_the_key_there_are_no_intervals() -> None:
    assert not spec(route("shop.a")).freshness
    assert not spec(route("shop.a", "0s")).freshness
    assert spec(route("shop.a", "1m"), route("shop.b")).freshness == spec(route("shop.a", "60s")).freshness


REFUSED = {
    "another source": (
        (route("shop.a", "10m"),),
        {"source": FILES},
        "type files does not support freshness.*two pipel",
    ),
    "a database": ((route("shop.a", "10m"),), {"source": MYSQL}, "type mysql does not support freshness"),
    "a sink of another source": ((), {"source": FILES, "freshness": "10m"}, "does not support freshness"),
    "as short as the trigger": ((route("shop.a", "30s"),), {}, "freshness 30s is not longer than trigger 30s"),
    "no table is fresh": ((), {"freshness": "10m"}, "set trigger to 10m"),
    "one table": ((), {"freshness": "10m", "table": "t"}, "written to one table"),
    "eager": ((route("shop.a", "10m"),), {"eager_init": True}, "eager-init"),
    "forced": (
        (route("shop.a", "10m"),),
        {"table_options": {"commit.force-create-snapshot": "true"}},
        "commit.force-create-snapshot",
    ),
    "two of one table": (
        (route("shop.a", "10m", "ods.x"), route("shop.b", "5m", "ods.x")),
        {},
        "routes to ods.x have different freshness: 10m, 5m",
    ),
    "no duration": ((route("shop.a", "often"),), {}, "not a duration|cannot be parsed"),
}


@pytest.mark.parametrize(("routes", "more", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_effect_is_refused(routes: tuple[dict[str, str], ...], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spec(*routes, **more)


def test_a_longer_trigger_is_compared_too() -> None:
    assert spec(route("shop.a", "10s"), pipeline={"trigger": "2s"}).freshness
    assert spec(route("shop.a", "10s"), pipeline={"trigger": "continuous"}).freshness
