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
    "tests/integration",
    "tests/interop",
)
# Tests whose subject others try too: with another server, on a smaller scale, or by its parts. They start when all
# others have started, in this order, and a run that is late leaves the last ones out and says how many. If several
# patterns match a test, the last one says its place. What each run has are the unit tests, the golden tables, stories,
# faults, kills with Kafka and MySQL, and the tests that the comments name or patterns except: on two slow cores these
# take two thirds of the hour.
_MYSQL_ALONE = "(?!test_following|test_mariadb_11_8|test_ddl_in_one_batch)"
_ALWAYS = (
    r"kafka/test_(kafka_source|docs)|mysql/(test_following|test_ddl_in_one_batch)|spark/test_job|"
    "spark_catalog/test_(rows|definitions|metastores)"
)
FURTHER = (
    # The rest of these folders starts first.
    r"interop/(?!test_java_reads_ours|test_pypaimon)",
    rf"integration/(?!{_ALWAYS})",
    r"chaos/(?!test_kills|test_mysql_kills)",
    "simulation/(?!test_faults)",
    # Each run has Java Paimon and pypaimon as readers of what was written here.
    "acceptance/",
    "interop/(?!test_java_reads_ours|test_pypaimon)",
    # Each run has Kafka and MySQL, and on Spark the rows and definitions of the catalog.
    "integration/(postgres|mongodb|pulsar|hive)/",
    "integration/spark_catalog/(?!test_rows|test_changed_rows|test_definitions|test_metastores)",
    # Random orders, operations, statements and damaged inputs, the same ones in each run.
    "simulation/test_interleavings",
    "simulation/test_verbs",
    "statements/test_statements",
    "fuzz/",
    r"integration/spark_tables/test_(writing|streaming)",
    # Jobs as users start them. Each run has `integration/spark/test_job`.
    "chaos/test_cluster_kills",
    r"integration/spark_catalog/test_other_(sessions|metastores)",
    "integration/install/test_yarn",
    "integration/install/test_clean_user",
    r"integration/(spark_tables|mysql|postgres|mongodb|pulsar)/test_docs",
    "integration/spark_tables/test_sql_streams",
    r"integration/spark/test_(extending|running|submit|actions_on_a_master)",
    r"integration/kafka/test_(freshness|every_table|running_job)",
    r"integration/mysql/test_(running_job|memory)",
    "integration/postgres/test_while_written",
    r"integration/spark_sources/test_(streams|on_a_cluster|auto_cdc)",
    r"chaos/test_(sql_kills|sql_stream_kills|compaction_kills|created_tables|soak|mariadb_kills)",
    "integration/pulsar/test_restarts",
    # Types, conditions and settings of the catalog on Spark.
    r"integration/spark_catalog/test_(session_reads|metadata_conditions|old_values|row_metadata|char_columns)",
    "integration/spark_catalog/test_session_settings",
    # Each run has a catalog that is named and one that is served.
    r"integration/spark_catalog/test_metastores.*\[(hive|in_mysql|in_postgres)\]$",
    r"interop/test_(random_options|hive_catalog|jdbc_catalog|jdbc_servers|rest_catalog|lookup_wait)",
    # Other versions of servers. Each run has MariaDB where its log differs from that of MySQL.
    rf"integration/mysql/{_MYSQL_ALONE}.*\[(.*-)?mariadb_11_8(-.*)?\]$",
    "integration/hive/test_hive_versions",
    "integration/postgres/test_version_18",
    rf"integration/mysql/{_MYSQL_ALONE}.*\[(.*-)?mariadb(-.*)?\]$",
)
_FURTHER = tuple(re.compile(f"tests/(?:{pattern})") for pattern in FURTHER)
_ANY_FURTHER = re.compile("|".join(pattern.pattern for pattern in _FURTHER))


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
    if not _ANY_FURTHER.match(test):
        return None
    return max(place for place, pattern in enumerate(_FURTHER) if pattern.match(test))


class FileScheduling(LoadFileScheduling):
    """Give the tests of a file to one worker; its further tests are a separate share for each of their places."""

    def _split_scope(self, nodeid: str) -> str:
        file, place = nodeid.partition("::")[0], further_place(nodeid)
        return file if place is None else f"{file} further {place}"
