"""The order in which a whole run starts the tests, and those that it leaves out when it is late."""

from __future__ import annotations

import re
from functools import cache

from xdist.scheduler import LoadFileScheduling

# The files that take longest on two cores, from a minute on, longest first, and then the folders by the cost of their
# files. A run that starts them last ends with one worker that has nothing left to do.
LONGEST = (
    "tests/chaos/test_kills.py",
    "tests/stories/test_stories.py",
    "tests/interop/test_java_reads_ours.py",
    "tests/simulation/test_faults.py",
    "tests/unit/table/write/test_memory_limits.py",
    "tests/chaos/test_mysql_kills.py",
    "tests/integration/kafka/test_docs.py",
    "tests/chaos",
    "tests/integration/install",
    "tests/integration/spark",
    "tests/integration/kafka",
    "tests/integration",
    "tests/interop",
    "tests/simulation",
)
# Tests whose subject others try too: with another server, on a smaller scale, or by its parts. They start when all
# others have started, in this order, and a run that is late leaves the last ones out and says which.
_MYSQL_ALONE = "(?!test_following|test_mariadb_11_8|test_ddl_in_one_batch)"
FURTHER = (
    # In each run Java Paimon and pypaimon read what was written here, and the golden tables of Java are read here.
    "acceptance/",
    "interop/test_(?!java_reads_ours|pypaimon|random_options|hive_catalog|jdbc_catalog|rest_catalog|lookup_wait)",
    # Kafka and MySQL are tried in each run, and the parts of all sources without a server.
    r"integration/(postgres|mongodb|pulsar|hive)/(?!test_docs|test_while_written|test_restarts|test_version|test_hive_versions)",
    r"integration/spark_catalog/(?!test_rows|test_definitions|test_metastores|test_other|test_session|test_meta|test_old)",
    # All orders of small cases; random faults and stories are tried in each run.
    "simulation/test_interleavings",
    # Random operations, statements and damaged inputs, the same ones in each run. Their subjects are tried by examples,
    # random stories and `simulation/test_faults` too.
    "simulation/test_verbs",
    "statements/test_statements",
    "fuzz/",
    # Reading tables by Spark and statements by the catalog are tried in each run.
    r"integration/spark_tables/test_(writing|streaming)",
    # Jobs as users start them. Their parts are tried in each run: sources, tables and the sink without Spark, and on
    # Spark by `integration/spark/test_job`.
    "chaos/test_cluster_kills",
    "integration/spark_catalog/test_other_sessions",
    "integration/install/test_yarn",
    "integration/install/test_clean_user",
    r"integration/(spark_tables|mysql|postgres|mongodb|pulsar)/test_docs",
    "integration/spark_tables/test_sql_streams",
    r"integration/spark/test_(extending|running|submit)",
    r"integration/kafka/test_(freshness|every_table|running_job)",
    r"integration/mysql/test_(running_job|memory)",
    "integration/postgres/test_while_written",
    "integration/spark_sources/test_streams",
    # Kills are tried in each run with Kafka and MySQL.
    r"chaos/test_(sql_stream_kills|compaction_kills|created_tables|soak|mariadb_kills)",
    "integration/pulsar/test_restarts",
    # Statements, conditions and types are tried without Spark, and on Spark by `test_rows` and `test_definitions`.
    r"integration/spark_catalog/test_(session_reads|metadata_conditions|old_values|row_metadata|char_columns)",
    "integration/spark_catalog/test_session_settings",
    # Each catalog is tried without Spark, and on Spark one that is named and one that is served.
    r"integration/spark_catalog/test_metastores.*\[(hive|in_mysql|in_postgres)\]$",
    # Java Paimon is tried in each run with each merge engine, with verbs, tags and files, and as the reader of it all.
    r"interop/test_(random_options|hive_catalog|jdbc_catalog|rest_catalog|lookup_wait)",
    # Other versions of servers. MariaDB is tried in each run where its log differs from that of MySQL.
    rf"integration/mysql/{_MYSQL_ALONE}.*\[(.*-)?mariadb_11_8(-.*)?\]$",
    "integration/hive/test_hive_versions",
    "integration/postgres/test_version_18",
    rf"integration/mysql/{_MYSQL_ALONE}.*\[(.*-)?mariadb(-.*)?\]$",
)
_FURTHER = tuple(re.compile(f"tests/(?:{pattern})") for pattern in FURTHER)


def rank(test: str) -> int:
    """Return the place of a test's file or folder among the longest. Further tests are last, in their own order."""
    further = further_place(test)
    if further is not None:
        return len(LONGEST) + 1 + further
    return next(
        (place for place, name in enumerate(LONGEST) if test.startswith((f"{name}::", f"{name}/"))), len(LONGEST)
    )


@cache
def further_place(test: str) -> int | None:
    """Return the place of a test among those that a late run leaves out; None if each run has it."""
    return next((place for place, pattern in enumerate(_FURTHER) if pattern.match(test)), None)


class FileScheduling(LoadFileScheduling):
    """Give the tests of a file to one worker, and its further tests, which are at the end, in one go too."""

    def _split_scope(self, nodeid: str) -> str:
        file, place = nodeid.partition("::")[0], further_place(nodeid)
        return file if place is None else f"{file} further {place}"
