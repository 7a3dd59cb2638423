"""The running engine: loops whose every turn is a `step()`, their threads, and the lock that makes it the only one."""
