"""Benchmarks of Penstock beside its peers."""

# Before Arrow, as in the processes of a pipeline: the import sets how long Arrow keeps freed memory.
import penstock  # noqa: F401  (for its effect)
