"""The names of target tables, and the routes by which a pipeline finds them after they were renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.pipeline_stories.model import DATABASE, Model


def own_name(name: str) -> str:
    """Return the name of a table without its database."""
    return name.partition(".")[2]


def renamed_routes(model: Model, new: Mapping[str, str]) -> dict[str, Any]:
    """Return the section of the pipeline file that leads to target tables under new names."""
    routes = [dict(route) for route in model.sections.get("route", ())]
    for source in model.story.keys:
        target = model.target_name(source)
        if target not in new:
            continue
        pattern = f"shop_[01].{source}"
        route = next((route for route in routes if route["source-table"] == pattern), None)
        if route is None:
            route = {"source-table": pattern}
            routes.append(route)
        route["sink-table"] = f"{DATABASE}.{new[target]}"
    return {"route": routes}
