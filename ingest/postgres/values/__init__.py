"""One conversion per type from the cells of COPY and of the log to Arrow columns."""
