"""The facade: what the daemon, the command line and other programs ask of a knowledge base.

`facade` is the door; `adding` takes files and notes in by hand; `commits` holds what one transaction writes;
`explain` says why a path is in its state; `integrity` checks the database; `embedders` says which model embeds what,
`reindexing` makes the index anew beside the one that is searched, `recovery` is what a start does first.
"""
