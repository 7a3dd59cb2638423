"""What waits to be done: a persistent queue in the database itself, so that a job and its result commit together."""
