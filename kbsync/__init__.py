"""kbsync keeps a private, local, searchable knowledge base in step with your folders.

The map, in the order of one file's life:

- `sources`    where files come from: ignore rules, watcher, scanner, debounce, reconcile
- `queue`      what waits to be done, kept in the database
- `pipelines`  file -> text -> pieces
- `embed`      pieces -> vectors
- `store`      where it is kept: one SQLite file, one writer
- `search`     how it is found
- `ingest`     one job -> one update: the story in one function
- `knowledge_base`  the facade over all of it
- `projects`   knowledge projects: plain files beside the index
- `daemon`     the running engine
- `compose`    builds everything from the settings, once
- `interfaces` command line and HTTP

On the ground floor: `errors`, `reasons`, `clock`, `filesystem`, `file_types`, `failpoints`, `measures`, `machine`,
`courtesy` to other programs, `confinement` of children, then `model`, `config`, `log`. A module imports only from
below; `lint-imports` checks it.
"""
