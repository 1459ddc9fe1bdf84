"""The jar of the catalog class, compiled by the Java compiler in Spark, once per source and Spark version."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.pipelines.spark.java import cache_folder
from penstock.pipelines.spark.versions import Feature

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView

CLASS_NAME = "penstock.spark.PenstockCatalog"
# For spark.sql.extensions, which Spark reads when a session is created.
EXTENSIONS = "penstock.spark.PenstockExtensions"
SOURCES = Path(__file__).with_name("java")
# Where the sources contain the digest of themselves, which each request then has.
_DIGEST_MARK = "@digest@"
_RELEASE = 8  # of the class files; newer ones are beyond Janino
BY_PATH = "tables are read and written by their path without it: see docs/spark.md"


def cached_jar(spark_version: str) -> Path:
    """Return the path of the jar for a version of Spark, whether or not it exists."""
    facts = f"{spark_version}\n{joined_source()}"
    return cache_folder() / "catalog" / f"penstock-spark-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.jar"


def joined_source() -> str:
    """Return the classes as one compilation unit, the only form that the compiler takes."""
    imports: set[str] = set()
    bodies = []
    # Sorted, because the name of the cached jar is a hash of this text.
    for path in sorted(SOURCES.glob("*.java")):
        lines = path.read_text(encoding="utf-8").splitlines()
        imports |= {line for line in lines if line.startswith("import ")}
        bodies += [line for line in lines if not line.startswith(("import ", "package "))]
    text = "\n".join(["package penstock.spark;", *sorted(imports), *bodies])
    return text.replace(_DIGEST_MARK, hashlib.sha256(text.encode()).hexdigest()[:16])


def is_of_these_classes(digest: str | None) -> bool:
    """Return whether a jar with this digest, or one that has none yet, was compiled from the classes here."""
    return digest is not None and f'"{digest}"' in joined_source()


def catalog_jar(jvm: JVMView, spark_version: str) -> Path:
    """Return the jar for the Spark of a JVM, and compile it if that was not done before."""
    path = cached_jar(spark_version)
    if not path.exists():
        write_jar(jvm, spark_version, path)
    return path


def write_jar(jvm: JVMView, spark_version: str, path: Path) -> None:
    """Compile the classes in a JVM that has the classes of Spark, and write the jar."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as half:
        with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as jar:
            for name, code in _classes(jvm, spark_version):
                jar.writestr(f"{name.replace('.', '/')}.class", code)
        Path(half.name).chmod(0o644)
    Path(half.name).replace(path)  # atomic: two processes may compile at once


def _classes(jvm: Any, spark_version: str) -> Iterator[tuple[str, bytes]]:
    from py4j.protocol import Py4JError

    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.setSourceVersion(_RELEASE)
        compiler.setTargetVersion(_RELEASE)
        compiler.cook(joined_source())
        codes = compiler.getBytecodes()
        for name in codes.keySet():
            yield name, bytes(codes.get(name))
    except Py4JError as error:
        cause = str(getattr(error, "java_exception", None) or error)
        raise ConfigError(
            f"the catalog cannot be compiled for Spark {spark_version}", reason=cause.splitlines()[0], hint=BY_PATH
        ) from error


def jar_without_session() -> Path:
    """Return the jar for the installed PySpark, compiled in a JVM of its own if it has to be."""
    import pyspark

    Feature.CATALOG.require()
    path = cached_jar(pyspark.__version__)
    if path.exists():
        return path
    if not (Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent)) / "jars").is_dir():
        raise ConfigError(
            "the catalog is compiled against the jars of Spark, and this PySpark contains none",
            hint="run  penstock spark-jar PATH  where Spark is installed, and add the jar to the session",
        )
    from pyspark.java_gateway import launch_gateway

    from penstock.pipelines.spark.session_settings import prepare_environment

    prepare_environment()
    gateway = launch_gateway()
    try:
        write_jar(gateway.jvm, pyspark.__version__, path)
    finally:
        gateway.shutdown()
        # A JVM that PySpark has started ends when its standard input is closed.
        gateway.proc.stdin.close()
        gateway.proc.wait()
    return path
