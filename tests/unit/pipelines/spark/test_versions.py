"""Which features need a newer Spark, and how an older one is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api.check_places import check_spark
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.spark import session, versions
from penstock.pipelines.spark.versions import Feature, check_version, lacking, parsed

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    monkeypatch.setattr(versions, "pyspark_version", lambda: request.param)
    monkeypatch.setattr("penstock.pipelines.api.check_places.pyspark_version", lambda: request.param)
    return str(request.param)


def findings() -> list[tuple[str, str]]:
    return [(finding.level, finding.message) for finding in check_spark(PipelineSpec.model_construct())]


@pytest.mark.parametrize("spark", ["3.5.6"], indirect=True)
def test_versions_before_4_are_refused_at_start_and_by_check(spark: str) -> None:
    with pytest.raises(ConfigError, match=r"Penstock needs Spark 4\.0 or newer") as caught:
        session.open_session("any")
    assert caught.value.facts == {"spark": spark}
    with pytest.raises(ConfigError, match=r"needs Spark 4\.0"):
        findings()


@pytest.fixture
def before_4(tmp_path: Path) -> Path:
    """A folder with a PySpark of which only the version can be imported."""
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "version.py").write_text('__version__ = "3.5.6"\n')
    (package / "__init__.py").write_text('__version__ = "3.5.6"\n')
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        "from penstock.pipelines.spark.session import open_session; open_session('any')",
        "import penstock; penstock.register(None)",
        "from penstock.pipelines.commands.main import main; sys.exit(main(['warm']))",
        "from penstock.pipelines.commands.main import main; sys.exit(main())",
    ],
)
def test_versions_before_4_are_refused_before_pyspark_is_imported(before_4: Path, call: str) -> None:
    conf = ["properties.bootstrap.servers=127.0.0.1:1", "topic=t", "value.format=canal-json"]
    words = ["kafka-sync-table", "--warehouse", "w", "--database", "d", "--table", "t"]
    words += [f"--kafka-conf={setting}" for setting in conf]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{before_4}:{ROOT / '.build'}", "HOME": str(before_4)}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {call}", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Penstock needs Spark 4.0 or newer" in done.stderr
    assert "ModuleNotFoundError" not in done.stderr


@pytest.mark.parametrize("spark", ["4.0.5"], indirect=True)
def test_the_oldest_version_lacks_named_features(spark: str) -> None:
    check_version()
    assert lacking() == list(Feature)
    (_, runs), (level, names) = findings()
    assert (runs, level) == ("Spark 4.0.5 runs this pipeline", "ok")
    assert "the Spark catalog: tables by name, MERGE, UPDATE, DELETE, CALL (Spark 4.3)" in names
    assert "mysql-cdc" in names


@pytest.mark.parametrize("spark", ["4.2.1"], indirect=True)
def test_a_version_between_has_what_it_has(spark: str) -> None:
    Feature.CDC_SOURCES.require()
    assert lacking() == [Feature.CATALOG]


@pytest.mark.parametrize("spark", ["4.3.0"], indirect=True)
def test_the_newest_version_has_all(spark: str) -> None:
    assert findings() == [("ok", "Spark 4.3.0 runs this pipeline")]


@pytest.mark.parametrize("spark", ["4.4.0.dev1"], indirect=True)
def test_an_untested_newer_version_is_a_warning(spark: str) -> None:
    assert findings()[-1] == ("warning", "Penstock was tested with Spark 4.0 to 4.3")


@pytest.mark.parametrize("spark", ["4.0.5"], indirect=True)
@pytest.mark.parametrize("feature", Feature)
def test_each_feature_is_refused_with_a_way_out(spark: str, feature: Feature) -> None:
    with pytest.raises(ConfigError, match=re.escape(feature.title)) as caught:
        feature.require()
    assert caught.value.facts == {"spark": spark}
    assert "; or " in (caught.value.hint or "")


def test_a_text_that_is_no_version_is_refused() -> None:
    assert parsed("4.10.1") == (4, 10)
    with pytest.raises(ConfigError, match="not a version of Spark"):
        parsed("unknown")


def test_the_package_allows_the_supported_versions() -> None:
    assert '"pyspark>=4.0,<4.4"' in (ROOT / "pyproject.toml").read_text()


def test_the_documentation_names_each_feature_with_its_version() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    for feature in Feature:
        assert f"| {feature.title.replace('|', '')} | {versions.text(feature.since)} |" in page
