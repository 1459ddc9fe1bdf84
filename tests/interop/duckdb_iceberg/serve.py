"""DuckDB with its extension for Iceberg: a query per line of input, its rows in an Arrow file."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa


def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        folder = Path(str(files(f"duckdb_extension_{name}"))) / "extensions"
        (extension,) = folder.glob(f"*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def main() -> None:
    connection = connected()
    for line in sys.stdin:
        question = json.loads(line)
        try:
            table = connection.execute(question["query"]).to_arrow_table()
            with pa.OSFile(question["out"], "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
            answer = {}
        except duckdb.Error as error:
            answer = {"error": str(error), "trace": ""}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
