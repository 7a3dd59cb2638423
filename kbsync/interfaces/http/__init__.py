"""The HTTP API: one FastAPI app (`app`) and the server that runs it on the Unix socket (`server`)."""
