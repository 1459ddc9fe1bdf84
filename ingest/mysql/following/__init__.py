"""A server as a source of batches: planned beside the driver, read in tasks, its place in the offsets."""
