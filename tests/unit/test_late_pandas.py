"""Commands go without pandas, and nobody who uses pandas notices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> list[str]:
    """Return the lines that a process prints; each test has one of its own, since modules stay imported."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / ".build"), "PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr  # DuckDB prints that of objects that are there when the process ends
    return done.stdout.splitlines()


def main(*words: str) -> str:
    """Return the code of a command that then says whether pandas was imported."""
    return f"""
import sys
from penstock.pipelines.commands.main import main
sys.argv[1:] = {list(words)!r}
assert main() == 0
print("pandas" in sys.modules)
"""


DEFERRED = """
import sys
from penstock import late_pandas
late_pandas.defer()
import pyarrow as pa
import numpy as np
def known():
    return "pandas" in sys.modules
pa.array([1]), pa.array(np.arange(3)), pa.table({"a": [1]}).to_pylist()
assert not known()
"""
NANOS = "print(repr(pa.scalar(1001, pa.timestamp('ns')).as_py()))"


@pytest.mark.slow
@pytest.mark.parametrize("importing", ["import pandas", "import pandas.api.types", "late_pandas.needed()"])
def test_arrow_knows_pandas_as_soon_as_anybody_has_imported_it(importing: str) -> None:
    shown = "import pandas as pd; print(pa.array(pd.Series([1.0, float('nan')])).null_count)"
    assert run(f"{DEFERRED}\n{importing}\nassert known()\n{NANOS}\n{shown}") == [
        "Timestamp('1970-01-01 00:00:00.000001001')",
        "1",
    ]


@pytest.mark.slow
def test_a_data_frame_of_arrow_brings_pandas_with_its_own_loader() -> None:
    code = """
print(len(pa.table({"a": [1, 2]}).to_pandas()), known())
import importlib.resources, pandas
print(importlib.resources.files("pandas").is_dir(), type(pandas.__loader__).__name__)
"""
    assert run(DEFERRED + code) == ["2 True", "True SourceFileLoader"]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["import pandas, pyarrow as pa", "import pyarrow as pa; pa.array([1])"])
def test_modules_that_were_imported_before_stay_as_they_are(first: str) -> None:
    again = "from penstock import late_pandas; late_pandas.defer(); late_pandas.defer(); import pandas as pd"
    assert run(f"{first}\n{again}\nprint(type(pa.array(pd.Series([1]))).__name__)\n{NANOS}") == [
        "Int64Array",
        "Timestamp('1970-01-01 00:00:00.000001001')",
    ]


@pytest.mark.slow
def test_pandas_may_be_imported_by_another_thread_while_arrow_asks() -> None:
    code = """
import sys, threading
from penstock import late_pandas
late_pandas.defer()
other = threading.Thread(target=__import__, args=("pandas",))
other.start()
import pyarrow as pa
other.join()
import pandas as pd
print(pa.array(pd.Series([1.0, float('nan')])).null_count, late_pandas._IMPORT.is_deferred)
"""
    assert run(code) == ["1 False"]


@pytest.mark.slow
def test_only_types_with_nanoseconds_bring_pandas() -> None:
    code = """
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import AtomicType
to_arrow(AtomicType("TIMESTAMP", precision=6)), late_pandas.needed_for(pa.list_(pa.timestamp("us", "UTC")))
print(known())
late_pandas.needed_for(pa.list_(pa.struct({"at": pa.timestamp("ns", "UTC")})))
print(known())
late_pandas.needed = lambda: print("for a column")
to_arrow(AtomicType("TIMESTAMP_LTZ", precision=9))
"""
    assert run(DEFERRED + code) == ["False", "True", "for a column"]


@pytest.mark.slow
def test_an_import_of_the_package_leaves_arrow_alone() -> None:
    code = "import penstock, sys; penstock.Catalog, penstock.Table; import pyarrow as pa; pa.array([1])"
    assert run(f"{code}; print('pandas' in sys.modules)") == ["True"]


@pytest.mark.slow
def test_sql_prints_nanoseconds(tmp_path: Path) -> None:
    query = "SELECT TIMESTAMP_NS '2024-01-02 03:04:05.123456789' AS t"
    lines = run(main("sql", query, "--warehouse", str(tmp_path)))
    assert any("03:04:05.123456789" in line for line in lines)
    assert lines[-1] == "True"


@pytest.mark.slow
def test_a_short_run_imports_no_pandas(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    change = {"database": "shop", "table": "t", "type": "INSERT", "pkNames": ["id"], "data": [{"id": "1"}]}
    change |= {"mysqlType": {"id": "bigint"}, "sqlType": {"id": -5}, "isDdl": False, "es": 1, "ts": 1}
    (tmp_path / "in/a.json").write_text(json.dumps(change) + "\n")
    (tmp_path / "p.yaml").write_text(f"""
version: 1
pipeline: {{name: short, until: caught-up}}
source: {{type: files, path: {tmp_path}/in, value.format: canal-json}}
sink: {{catalog: {{warehouse: {tmp_path}/warehouse}}, database: ods, table-options: {{bucket: '1'}}}}
""")
    assert run(main("run", str(tmp_path / "p.yaml")))[-1] == "False"
    lines = run(main("sql", "SELECT count(*) AS n FROM ods.t", "--warehouse", str(tmp_path / "warehouse")))
    assert lines[-1] == "False"
