"""Where everything is kept: one SQLite file. A table has one module, functions take the connection."""
