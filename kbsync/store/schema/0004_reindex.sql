-- What reindexing needs: a model may have several tables of vectors, one that is searched and one that is being made;
-- and where its files lie, so that its vectors can be searched while those of another model are made.

CREATE TABLE embedders_now (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL,
    model_name TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    -- NULL where it was never written down; the packaged model is found without it
    folder TEXT,
    created_at REAL NOT NULL,
    -- when its vectors became the ones that are searched; NULL before that
    live_at REAL
) STRICT;
INSERT INTO embedders_now (id, fingerprint, model_name, dimension, created_at, live_at)
SELECT id, fingerprint, model_name, dimension, created_at,
       CASE WHEN CAST(id AS TEXT) = (SELECT value FROM meta WHERE key = 'live_embedder') THEN created_at END
FROM embedders;
DROP TABLE embedders;
ALTER TABLE embedders_now RENAME TO embedders;
