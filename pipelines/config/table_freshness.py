"""The `freshness` of tables: the rules that routes and the sink describe, and what contradicts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.ingest.freshness import FreshnessRules, duration
from penstock.pipelines.config.rules import RouteConfig
from penstock.pipelines.config.sink import SinkConfig

FORCED = "commit.force-create-snapshot"
TWO_PIPELINES = "two pipelines with disjoint tables and different triggers do the same"


def freshness_rules(routes: Sequence[RouteConfig], sink: SinkConfig) -> FreshnessRules:
    default = _millis(sink.freshness)
    intervals = [
        (route.source_table, default if route.freshness is None else _millis(route.freshness)) for route in routes
    ]
    return FreshnessRules.of(intervals, default)


def check_freshness(
    routes: Sequence[RouteConfig], sink: SinkConfig, trigger: float, source: str, *, defers: bool
) -> None:
    """Raise ValueError for a freshness that the source cannot offer, or that has no effect.

    `defers`: the source can read the records of earlier batches again.
    """
    rules = freshness_rules(routes, sink)
    if not rules:
        return
    if not defers:
        raise ValueError(f"a source of type {source} does not support freshness: remove it; {TWO_PIPELINES}")
    if sink.table is not None:
        raise ValueError("all source tables are written to one table: remove freshness, and set trigger")
    for interval in rules.intervals:
        if interval <= trigger * 1000:
            raise ValueError(
                f"freshness {duration(interval)} is not longer than trigger {duration(round(trigger * 1000))}: "
                "remove it, as each batch commits the table, or shorten trigger"
            )
    if rules.others and not any(interval == 0 for _, interval in rules.routes):
        raise ValueError(
            f"no table is committed in every batch: set trigger to {duration(rules.intervals[0])}, or set "
            "freshness to 0s in a route"
        )
    if sink.eager_init:
        raise ValueError("eager-init makes a snapshot of each table with every batch: remove it, or freshness")
    if any(options.get(FORCED, "").lower() == "true" for options in (sink.options, *sink.per_table.values())):
        raise ValueError(f"{FORCED} makes a snapshot of a table with every batch: remove it, or freshness")
    for table, intervals in _targets(routes, rules):
        if len(intervals) > 1:
            raise ValueError(
                f"routes to {table} have different freshness: {', '.join(sorted(map(duration, intervals)))}; "
                "rows of one table are read together"
            )


def _targets(routes: Sequence[RouteConfig], rules: FreshnessRules) -> Iterator[tuple[str, set[int]]]:
    """Yield the target tables that routes name in full, with the intervals of their routes."""
    targets: Mapping[str, set[int]] = {
        route.sink_table: set()
        for route in routes
        if not set("{$") & set(route.sink_table) and not route.replace_symbol
    }
    for route in routes:
        if route.sink_table in targets:
            targets[route.sink_table].add(rules.others if route.freshness is None else _millis(route.freshness))
    yield from targets.items()


def _millis(seconds: float | None) -> int:
    return round((seconds or 0.0) * 1000)
