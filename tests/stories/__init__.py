"""Random stories: one seed makes a table, its options and everything that happens to it.

    python -m tests.stories 0 2000                 # play the seeds 0 to 1999, print what fails
    python -m tests.stories --shrink 1059          # find the shortest story that fails in the same way, and keep it

A story is a list of steps in JSON. It is played on a simulated store against a model that is a dict. After each step
the newest rows are those of the model; at the end every snapshot, tag and branch is, and all invariants hold.
A story that failed once stays in `tests/stories/kept/` and is played with every run of the tests.
"""
