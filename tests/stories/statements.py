"""UPDATE, DELETE and MERGE as statements of SQL, and what they do to the rows of the model.

Each statement sets fixed values: repeated after a lost answer, it changes nothing more.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.meta.store import TableStore
from penstock.table.sql.interpreter import Interpreter
from tests.simulation.playing import PATH
from tests.simulation.store import Died, SimStore
from tests.simulation.story import Step
from tests.stories.shelf import TableModel

WAREHOUSE = PATH.partition("/db.db/")[0]
GONE = "x"  # a merge deletes the rows that its source marks with this value
KEYS = 12


def statement(draw: random.Random, keys: Sequence[str], partitions: Sequence[str]) -> Step:
    """Draw a statement for a table with these keys, in which a row has one of these partitions; none without them."""
    step: dict[str, Any] = {"op": "sql", "do": draw.choice(("update", "update", "delete", "merge", "merge"))}
    if step["do"] != "merge":
        first = draw.randrange(KEYS)
        step |= {"from": first, "below": first + draw.choice((1, 3, KEYS))}
        return step if step["do"] == "delete" else {**step, "v": draw.choice((None, *"abc")), "n": draw.randrange(9)}
    step["on"] = ["p", "k"] if "p" in keys else ["k"]
    step["rows"] = [
        {
            "k": key,
            **({"p": draw.choice(partitions)} if partitions else {}),
            "v": draw.choice((*"abc", GONE)),
            "n": draw.choice((None, draw.randrange(9))),
        }
        for key in draw.sample(range(KEYS), draw.choice((1, 3, 6)))
    ]
    return step


def text_of(step: Step) -> str:
    if step["do"] == "merge":
        return _merge_text(step)
    where = f"WHERE k >= {step['from']} AND k < {step['below']}"
    if step["do"] == "delete":
        return f"DELETE FROM t {where}"
    return f"UPDATE t SET v = {_literal(step['v'])}, n = {_literal(step['n'])} {where}"


def _merge_text(step: Step) -> str:
    names = list(step["rows"][0])
    # The first row gives the columns their types: a null alone has none.
    rows = ", ".join(f"({', '.join(_typed(name, row[name]) for name in names)})" for row in step["rows"])
    listed, sources = ", ".join(names), ", ".join(f"s.{name}" for name in names)
    return (
        f"MERGE INTO t USING (VALUES {rows}) AS s ({listed}) ON {' AND '.join(f't.{n} = s.{n}' for n in step['on'])}"
        f" WHEN MATCHED AND s.v = '{GONE}' THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v, n = s.n"
        f" WHEN NOT MATCHED AND s.v <> '{GONE}' THEN INSERT ({listed}) VALUES ({sources})"
    )


def _typed(name: str, value: Any) -> str:
    return f"CAST({_literal(value)} AS {'INT' if name in 'kn' else 'STRING'})"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def run(store: TableStore, step: Step) -> None:
    """Run the statement on the table."""
    storage = store.storage
    assert isinstance(storage, SimStore)
    catalog = Catalog(WAREHOUSE, ambient=store.ambient, backend=FileCatalog(storage, WAREHOUSE, store.ambient))
    # DuckDB reads the table in a thread of its own, one request after the other.
    with storage.threads_take_turns(), Interpreter(catalog, "db") as interpreter:
        try:
            interpreter.last_result(text_of(step))
        except Exception:
            if storage.has_died:
                raise Died from None
            raise


def apply_statement(step: Step, model: TableModel) -> None:
    """Change the rows of the model as the statement does."""
    if step["do"] == "merge":
        _merge(step, model)
    elif step["do"] == "delete":
        model.remove(lambda row: step["from"] <= row["k"] < step["below"])
    else:
        chosen = (row for row in model.rows.values() if step["from"] <= row[model.names.index("k")] < step["below"])
        for row in chosen:
            _set(model, row, step)


def _merge(step: Step, model: TableModel) -> None:
    sources = {tuple(row[name] for name in step["on"]): row for row in step["rows"]}
    places = [model.names.index(name) for name in step["on"]]
    matches = {key: tuple(row[place] for place in places) for key, row in model.rows.items()}
    for key, match in matches.items():
        source = sources.get(match)
        if source is not None and source["v"] == GONE:
            del model.rows[key]
        elif source is not None:
            _set(model, model.rows[key], source)
    new = [row for match, row in sources.items() if row["v"] != GONE and match not in matches.values()]
    model.apply([["+I", *(row.get(name) for name in model.names)] for row in new])


def _set(model: TableModel, row: list[Any], values: Mapping[str, Any]) -> None:
    for name in ("v", "n"):
        row[model.names.index(name)] = values[name]
