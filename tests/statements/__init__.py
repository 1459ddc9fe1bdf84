"""Random scripts of SQL, run on DuckDB and on Spark, and compared with a model of tables in memory.

    python -m tests.statements 0 20                      # 20 scripts of 100 statements on DuckDB
    python -m tests.statements 0 5 --engine spark
    python -m tests.statements --shrink 7                # the shortest script that fails as seed 7 does

A script is a list of steps that are plain data. The model says what a step does, or that it must be refused; a step
that makes no sense, because an earlier one was removed, is skipped. So scripts can be shortened and kept.
"""
