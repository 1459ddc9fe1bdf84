"""The acceptance suite for readers of Paimon tables: tables, and the rows that a reader must return for them.

    python -m tests.acceptance unpack FOLDER       # tables and `reads.json`, for any implementation
    python -m tests.acceptance read FOLDER         # the answers of Penstock
    python -m tests.acceptance check FOLDER        # compare the answers of any implementation
    python -m tests.acceptance invariants TABLE    # check a table that any implementation wrote

docs/acceptance.md describes the folder.
"""
