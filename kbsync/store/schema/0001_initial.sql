-- The first form: chunks without enriched text, full-text search over the raw text.
-- Times are seconds since 1970 (REAL) unless named _ns. Paths are the operating system's raw bytes (BLOB).
-- Row ids are never reused (AUTOINCREMENT): a vector or index row of something deleted never answers for something new.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    title_source TEXT NOT NULL DEFAULT 'content' CHECK (title_source IN ('hand', 'content', 'name')),
    type TEXT NOT NULL,
    language TEXT,
    type_by_hand INTEGER NOT NULL DEFAULT 0,
    -- SHA-256 (hex) of the bytes; of a note: of its title and text
    content_hash TEXT NOT NULL UNIQUE,
    original_filename TEXT,
    -- NULL where no copy is kept: files of a mirror, notes
    stored_path TEXT,
    size_bytes INTEGER NOT NULL,
    page_count INTEGER,
    fidelity TEXT NOT NULL DEFAULT 'full' CHECK (fidelity IN ('quick', 'full')),
    -- why an indexed document is not wholly searchable: no_text, truncated
    reason TEXT,
    -- follows from its origins, kept by store/origins in the same transaction
    state TEXT NOT NULL DEFAULT 'current' CHECK (state IN ('current', 'superseded', 'missing')),
    converter_fingerprint TEXT NOT NULL,
    chunker_fingerprint TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    metadata TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE TABLE sources (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path BLOB NOT NULL UNIQUE,
    state TEXT NOT NULL DEFAULT 'watching' CHECK (state IN ('watching', 'polling', 'paused', 'held')),
    reason TEXT,
    detail TEXT,
    added_at REAL NOT NULL,
    last_scan_at REAL,
    last_scan_seconds REAL,
    files_seen INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE origins (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document_id INTEGER NOT NULL REFERENCES documents (id),
    kind TEXT NOT NULL CHECK (kind IN ('path', 'added', 'inbox', 'note', 'upload')),
    source_id INTEGER REFERENCES sources (id),
    path BLOB,
    live INTEGER NOT NULL DEFAULT 1 CHECK (live IN (0, 1)),
    since REAL NOT NULL,
    until REAL,
    ended_because TEXT CHECK (ended_because IN ('superseded', 'missing', 'removed'))
) STRICT;
CREATE INDEX origins_document ON origins (document_id, live);
CREATE INDEX origins_path ON origins (path);
CREATE UNIQUE INDEX origins_live_path ON origins (path) WHERE kind = 'path' AND live = 1;

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document_id INTEGER NOT NULL REFERENCES documents (id),
    position INTEGER NOT NULL,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL DEFAULT '{}',
    token_count INTEGER NOT NULL,
    UNIQUE (document_id, position)
) STRICT;

CREATE VIRTUAL TABLE chunks_fts USING fts5 (
    text, content = 'chunks', content_rowid = 'id', tokenize = 'porter kbsync'
);
CREATE TRIGGER chunks_fts_insert AFTER INSERT ON chunks BEGIN
    INSERT INTO chunks_fts (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER chunks_fts_update AFTER UPDATE OF text ON chunks BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, text) VALUES ('delete', old.id, old.text);
    INSERT INTO chunks_fts (rowid, text) VALUES (new.id, new.text);
END;

-- One row for each embedder; its vectors are in the table vectors_{id}, made by store/vectors. meta.live_embedder names the one in use.
CREATE TABLE embedders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL UNIQUE,
    model_name TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    created_at REAL NOT NULL
) STRICT;

CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id INTEGER NOT NULL REFERENCES sources (id),
    path BLOB NOT NULL,
    -- the name as people compare it (Unicode NFC), for looking a path up by what was typed
    path_nfc TEXT NOT NULL,
    size INTEGER,
    mtime_ns INTEGER,
    ctime_ns INTEGER,
    inode INTEGER,
    device INTEGER,
    content_hash TEXT,
    document_id INTEGER REFERENCES documents (id),
    state TEXT NOT NULL CHECK (state IN ('indexed', 'waiting', 'skipped', 'failed', 'gone')),
    reason TEXT,
    detail TEXT,
    -- the rules that judged it: other rules judge it again
    rules TEXT NOT NULL,
    last_seen_at REAL NOT NULL,
    UNIQUE (source_id, path)
) STRICT;
CREATE INDEX files_document ON files (document_id);
CREATE INDEX files_state ON files (source_id, state);
CREATE INDEX files_path ON files (path);

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    state TEXT NOT NULL CHECK (state IN ('queued', 'processing', 'done', 'failed', 'skipped')),
    kind TEXT NOT NULL CHECK (kind IN ('path', 'staged', 'note')),
    source_id INTEGER REFERENCES sources (id),
    path BLOB NOT NULL,
    priority INTEGER NOT NULL,
    -- within a priority: what an event brought newest first (minus its time), what a scan found small before large (size)
    sequence REAL NOT NULL,
    -- raised by a change that comes while the job runs: the answer for the older bytes is dropped
    generation INTEGER NOT NULL DEFAULT 1,
    -- counted before the work starts, so that a file that kills the process is known after the restart
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL DEFAULT 0,
    lease_until REAL,
    staged_path TEXT,
    options TEXT NOT NULL DEFAULT '{}',
    reason TEXT,
    error TEXT,
    document_id INTEGER REFERENCES documents (id),
    chunk_count INTEGER,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL
) STRICT;
CREATE UNIQUE INDEX jobs_live_path ON jobs (source_id, path) WHERE kind = 'path' AND state IN ('queued', 'processing');
CREATE INDEX jobs_next ON jobs (priority, sequence, id) WHERE state = 'queued';
CREATE INDEX jobs_document ON jobs (document_id);
CREATE INDEX jobs_ended ON jobs (state, updated_at);

CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    source_id INTEGER,
    path BLOB,
    document_id INTEGER,
    detail TEXT
) STRICT;
CREATE INDEX events_path ON events (path);
