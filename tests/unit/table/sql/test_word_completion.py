"""Words that complete a statement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.table.sql.interpreter import Interpreter


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    folder: Path = tmp_path_factory.mktemp("warehouse")
    penstock.sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT, amount INT, `of day` INT)", folder)
    with Interpreter(penstock.Catalog(folder), "shop") as interpreter:
        yield interpreter


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sel", ("select",)),
        ("SEL", ("SELECT",)),
        ("select * from or", ("orders", "order")),
        ("select * from shop.", ("orders",)),
        ("select * from `shop`.o", ("orders",)),
        ("select * from orders o where o.am", ("amount",)),
        ("update orders set am", ()),  # no table is named where it is read
        ("select * from orders where am", ("amount",)),
        ("use sh", ("shop", "show")),
        ("select 'or", ()),
        ("select * from nowhere.", ()),
        ("select * from a.b.c.d", ()),
        ("select ", ()),
    ],
)
def test_names_and_keywords_complete_a_word(session: Interpreter, text: str, words: tuple[str, ...]) -> None:
    assert session.completions(text).words == words


def test_without_a_catalog_keywords_complete_a_word() -> None:
    with Interpreter() as interpreter:
        assert interpreter.completions("create cat").words == ("catalog", "catalogs")
        assert interpreter.completions("a.").words == ()
