"""Paimon's table functions that read changes: in a session they name the options of a read that do the same.

A function of Python would return its rows one by one, from one process, while a read is divided into tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import udtf

from penstock.errors import ConfigError
from penstock.pipelines.spark_source.plain_errors import plain_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTEAD = {
    "paimon_incremental_query": "(`incremental-between` = 'FIRST,LAST')",
    "paimon_incremental_between_timestamp": "(`incremental-between-timestamp` = 'FIRST,LAST')",
    "paimon_incremental_to_auto_tag": "(`incremental-to-auto-tag` = 'TAG')",
}


def _refusing(function: str, instead: str) -> type:
    class Refused:
        @staticmethod
        def analyze(*arguments: Any) -> Any:
            table = str(arguments[0].value) if arguments and arguments[0].value is not None else "t"
            with plain_errors():
                raise ConfigError(
                    f"{function} is not a function of this catalog",
                    hint=f"SELECT * FROM {table} WITH {instead}; its rows have their kind in the column rowkind",
                )

        def eval(self, *arguments: Any) -> Iterator[tuple[Any, ...]]:
            raise NotImplementedError(function)  # never called: Spark analyzes the call first

    return Refused


def register_change_functions(session: SparkSession) -> None:
    """Let calls of these functions end with an error that names the options of a read.

    Sessions with Paimon's own extension have the functions themselves.
    """
    if "org.apache.paimon" in str(session.conf.get("spark.sql.extensions", "")):
        return
    for name, instead in _INSTEAD.items():
        session.udtf.register(name, udtf(_refusing(name, instead)))
