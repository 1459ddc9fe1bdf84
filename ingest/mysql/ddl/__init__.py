"""Table definitions as they were: a tolerant reader of DDL and the history it keeps."""
