"""Reading tables in chunks: bounds, rows off the text protocol, and the watermarks that make a chunk exact."""
