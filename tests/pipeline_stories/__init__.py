"""Random stories of pipelines, without Spark: one seed makes a description, its source, and all that happens to it.

    python -m tests.pipeline_stories 0 2000           # play the seeds 0 to 1999, print what fails
    python -m tests.pipeline_stories --shrink 1059    # find the shortest story that fails in the same way, and keep it

Messages of one of the formats come in a log; drivers read them in batches, die, and are overtaken by others, on a
simulated store that fails. Only Spark is left out: `process.py` hands shares to tasks. A model in plain Python applies
each message once. After each step all target tables and the dead letters must equal the model's, and all invariants
hold. A story that failed once is stored in `tests/pipeline_stories/kept/` and is played with every test run.
"""
