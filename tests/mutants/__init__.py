"""Mutants: planted faults. A story or a test must notice each of them.

    python -m tests.mutants                          # all of them: `make mutants`
    python -m tests.mutants --only "null overwrites" # those whose name contains the text
    python -m tests.mutants --seeds 1000 --minutes 3 # give up on a mutant earlier

A suite that cannot fail proves nothing. The `*.toml` files of this folder describe the mutants: a name, the promise
that the fault breaks, a piece of the source that occurs exactly once in the tree, and what replaces it. A mutant with
`tests` is run against them, every other one against the random stories of `tests/stories/`. The seed or test that
noticed it is repeated without the fault, and must then pass.
"""
