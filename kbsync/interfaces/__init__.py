"""How people and programs reach kbsync: `operations` in JSON values, offered by the command line and over HTTP."""
