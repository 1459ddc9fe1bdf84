"""The rows of TPC-H's lineitem as CSV: `python tpch_rows.py SCALE FILE`, in an environment with DuckDB's tpch."""

from __future__ import annotations

import sys

import duckdb
from duckdb_extensions import import_extension


def main(scale: float, file: str) -> None:
    import_extension("tpch")
    connection = duckdb.connect()
    connection.execute("LOAD tpch")
    connection.execute(f"CALL dbgen(sf = {scale})")
    connection.execute(f"COPY lineitem TO '{file}' (FORMAT csv, HEADER false)")


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2])
