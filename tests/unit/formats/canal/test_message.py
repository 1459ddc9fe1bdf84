"""Rows as messages that decode to the same rows: what dead letters are kept as."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.formats.canal.decode import decode
from penstock.formats.canal.message import canal_message
from penstock.formats.change import ChangeBatch, DecodeOptions, Messages, SourceField, SourceSchema


def test_row_without_declared_types_returns_as_it_was() -> None:
    schema = SourceSchema("text", "shop", "t", (SourceField("_id"), SourceField("v")), ("_id",))
    rows = pa.RecordBatch.from_pydict({"_id": ["5"], "v": ['{"a":[1,null]}']})
    message = canal_message(ChangeBatch.inserts(schema, rows), [0])
    (found,) = decode(Messages([message], np.array([0])), DecodeOptions()).batches
    assert found.schema == schema
    assert found.rows.to_pylist() == rows.to_pylist()
