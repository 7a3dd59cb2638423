"""The HTTP API: one FastAPI app (`app`) behind a guard, served on the Unix socket and through a door over TCP."""
