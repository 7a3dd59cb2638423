"""The command line, one file a command. With the daemon it talks to it; without, it works on the database itself."""
