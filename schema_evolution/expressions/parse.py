"""The trees of expressions and projections, parsed from their texts within a limit of depth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import ConfigError
from penstock.schema_evolution.expressions.expression_parser import ExpressionParser
from penstock.schema_evolution.expressions.nodes import Dialect, Item, Node, children

DEEPEST = 250


def parse_expression(text: str, dialect: Dialect = "sql") -> Node:
    """Return the tree of an expression. ConfigError names the position of a syntax error."""
    with _bounded(text):
        parser = ExpressionParser(text, dialect)
        node = parser.expression()
        parser.expect_end()
        return _shallow(node)


def parse_projection(text: str, dialect: Dialect = "sql") -> tuple[Item, ...]:
    """Return the items of `*, upper(name) as name, price * 2 as doubled`: each name once, `*` at most once."""
    with _bounded(text):
        parser = ExpressionParser(text, dialect)
        items = [parser.item()]
        while parser.accept(","):
            items.append(parser.item())
        parser.expect_end()
        for item in items:
            if item.value is not None:
                _shallow(item.value)
    names = [item.name for item in items]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(
            f"{twice!r} appears twice in the projection",
            projection=text,
            hint="name one of them differently with AS, or leave it out",
        )
    return tuple(items)


@contextmanager
def _bounded(text: str) -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise _too_deep(text) from error
    except ConfigError as error:
        error.facts = {name: _short(value) for name, value in error.facts.items()}
        raise


def _short(fact: object) -> object:
    return f"{fact[:1000]}..." if isinstance(fact, str) and len(fact) > 1000 else fact


def _too_deep(text: str) -> ConfigError:
    return ConfigError(
        "the expression is nested too deeply",
        expression=_short(text),
        hint="write many ORs over one column as  column IN (...)",
    )


def _shallow(node: Node) -> Node:
    """Return the node, or raise RecursionError when it is too deep for recursive evaluation."""
    level, depth = [node], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise RecursionError
        level = [inner for node in level for inner in children(node)]
    return node
