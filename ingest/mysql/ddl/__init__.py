"""Table definitions over time: a tolerant DDL parser and the history built with it."""
