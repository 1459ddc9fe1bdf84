"""`penstock spark-jar`: write the jar of the Spark catalog to a path, for sessions that load it when they start."""

from __future__ import annotations

import shutil
from pathlib import Path

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import parse_with_word
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.target import JSON

_DOES = (
    "Write the jar of the catalog for the installed Spark, for  spark-sql --jars, Spark Connect and servers. Sessions "
    "in Python need no file: penstock.register(spark, catalog=..., warehouse=...)"
)


def command(name: str, words: list[str]) -> int:
    path, flags = parse_with_word(name, (JSON,), words, _DOES, "PATH", "the jar, or the folder in which it is written")
    if path is None:
        raise ConfigError("no path is given", hint="penstock spark-jar penstock-spark.jar")
    import pyspark

    from penstock.pipelines.spark_catalog.catalog_jar import CLASS_NAME, EXTENSIONS, jar_without_session

    target = Path(path)
    target = target / "penstock-spark.jar" if target.is_dir() else target
    shutil.copyfile(jar_without_session(), target)
    settings = f"spark.sql.catalog.NAME={CLASS_NAME} spark.sql.extensions={EXTENSIONS}"
    facts = {"jar": str(target), "spark": pyspark.__version__, "class": CLASS_NAME, "extensions": EXTENSIONS}
    return answer(flags, facts, f"{target}  for Spark {pyspark.__version__}: {settings}")
