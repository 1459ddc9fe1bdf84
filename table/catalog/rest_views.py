"""Views in the replies of a REST catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.json_answers import WrongAnswer, expected, expected_texts, named
from penstock.table.catalog.kept_views import KeptView, ViewColumn
from penstock.table.schema.type_text import read_type, written
from penstock.table.values.types import Field, field_json, parse_field


def view_of(name: str, reply: Mapping[str, Any]) -> KeptView:
    """Return the view that a reply describes. Raise WrongAnswer if it is not as the protocol requires."""
    schema = expected(reply.get("schema"), dict, "schema")
    comment = schema.get("comment")
    return KeptView(
        name,
        named(schema, "query"),
        tuple(_column(node) for node in expected(schema.get("fields"), list, "schema.fields")),
        None if comment is None else expected(comment, str, "schema.comment"),
        expected_texts(schema.get("dialects"), "schema.dialects"),
        expected_texts(schema.get("options"), "schema.options"),
    )


def view_node(view: KeptView) -> dict[str, object]:
    """Return the JSON object of a new view."""
    columns = [
        field_json(Field(number, column.name, read_type(column.type), column.comment))
        for number, column in enumerate(view.columns)
    ]
    node: dict[str, object] = {
        "fields": columns,
        "query": view.query,
        "dialects": dict(view.dialects),
        "options": dict(view.options),
    }
    return node if view.comment is None else {**node, "comment": view.comment}


def _column(node: object) -> ViewColumn:
    try:
        field = parse_field(expected(node, dict, "a column of the view"))
    except (LookupError, TypeError, ValueError) as error:
        raise WrongAnswer(f"a column of the view is {node!r}") from error
    return ViewColumn(field.name, written(field.type), field.description)
