"""Views that a catalog keeps, as Java Paimon and we create, read and change them: equal for each kind of catalog."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter


class Lake(Protocol):
    """A warehouse that both have open."""

    @property
    def ours(self) -> Catalog: ...

    def java(self, op: str, **arguments: Any) -> Any: ...


def check_views_of_java(lake: Lake) -> None:
    """Check that a view of Java is listed, read and dropped. The table shop.orders has the ids 1 and 2."""
    ours = lake.ours
    view = {"columns": [["number", "INT"]], "query": "SELECT `id` FROM `shop`.`orders` WHERE `id` > 1"}
    lake.java("create_view", view="shop.dear", comment="what is dear", **view)
    assert (ours.tables("shop"), ours.views("shop")) == (["orders"], ["dear"])
    assert (ours.view("shop.dear").query, ours.view("shop.dear").comment) == (view["query"], "what is dear")
    with Interpreter(ours) as interpreter:
        found = interpreter.last_result("SELECT * FROM shop.dear")
        assert found is not None
        assert found.to_pydict() == {"number": [2]}
        described = interpreter.last_result("DESCRIBE shop.dear")
        assert described is not None
        assert described.column("type").to_pylist()[0].upper() == "INT"
        with pytest.raises(ConfigError, match=r"shop\.dear is a view, and not a table"):
            interpreter.last_result("DROP TABLE shop.dear")
        interpreter.last_result("DROP VIEW shop.dear")
    assert lake.java("views", database="shop")["views"] == []


def check_views_of_ours(lake: Lake) -> None:
    """Check that Java finds a view as we created, replaced and renamed it. The table shop.orders has id and v."""
    ours = lake.ours
    with Interpreter(ours, "shop") as interpreter:
        interpreter.last_result(
            "CREATE VIEW dear (number COMMENT 'of the order', v) COMMENT 'c' AS SELECT id, v FROM orders"
        )
        found = lake.java("view", view="shop.dear")
        assert (found["query"], found["comment"]) == ("SELECT id, v FROM orders", "c")
        assert found["columns"] == [["number", "INT", "of the order"], ["v", "STRING", None]]
        interpreter.last_result("CREATE OR REPLACE VIEW dear TBLPROPERTIES ('k' = 'l') AS SELECT max(id) FROM orders")
        interpreter.last_result("ALTER VIEW dear RENAME TO most")
    assert lake.java("views", database="shop")["views"] == ["most"]
    found = lake.java("view", view="shop.most")
    assert (found["query"], found["comment"]) == ("SELECT max(id) FROM orders", None)
    assert (found["columns"], found["options"]["k"]) == ([["max(id)", "INT", None]], "l")
    assert lake.java("tables")["tables"] == ["shop.orders"]
    ours.drop_database("shop", cascade=True)
    assert "shop" not in ours.databases()
