"""Spark SQL through the catalog, in one session for all scripts."""

from __future__ import annotations

import tempfile

from pyspark.errors import PySparkException

import penstock
from penstock.pipelines.spark.session import open_session
from penstock.table.catalog.catalog import Catalog
from tests.statements.model_table import Row
from tests.statements.play import OPTIONS, Refused
from tests.statements.text import Text


class Spark:
    """Spark SQL. The scripts share a warehouse, in which each has an empty database."""

    text = Text("spark")

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-statements-")
        settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
        self._session = open_session("statements", master="local[2]", settings=settings)
        penstock.register(self._session, catalog="lake", warehouse=self._folder.name, options=OPTIONS)
        self._session.sql("USE lake")

    def begin(self) -> Catalog:
        catalog = Catalog(self._folder.name, OPTIONS)
        catalog.create_database("d")
        self._session.sql("USE lake.d")
        return catalog

    def run(self, statement: str) -> list[Row]:
        try:
            return [row.asDict() for row in self._session.sql(statement).collect()]
        except PySparkException as error:
            if "Traceback" in str(error) or "INTERNAL_ERROR" in str(error):
                raise
            raise Refused(str(error)) from error

    def end(self) -> None:
        Catalog(self._folder.name, OPTIONS).drop_database("d", cascade=True)

    def close(self) -> None:
        self._session.stop()
        self._folder.cleanup()
