"""Reading of tables in chunks: bounds, rows of the text protocol, and the watermarks that make a chunk exact."""
