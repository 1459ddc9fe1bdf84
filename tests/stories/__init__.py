"""Random stories: from one seed, a table, its options and everything that happens to it.

    python -m tests.stories 0 2000                 # play the seeds 0 to 1999, print what fails
    python -m tests.stories --shrink 1059          # find the shortest story that fails in the same way, and keep it

A story is a list of steps in JSON. It is played on a simulated store, beside a model that is a dict. After each step
the newest rows must equal the model's, and the metadata must be sound; at the end the rows of every snapshot, tag and
branch must equal the model's, and all invariants are checked. A story that failed once is stored in
`tests/stories/kept/` and is played with every test run.
"""
