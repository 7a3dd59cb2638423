-- The enriched text (title and section header before the raw text) is what is searched and embedded.

ALTER TABLE chunks ADD COLUMN enriched_text TEXT NOT NULL DEFAULT '';

DROP TRIGGER chunks_fts_insert;
DROP TRIGGER chunks_fts_delete;
DROP TRIGGER chunks_fts_update;
DROP TABLE chunks_fts;

UPDATE chunks SET enriched_text = (
    SELECT documents.title
        || CASE WHEN coalesce(json_extract(chunks.metadata, '$.section_header'), '') <> ''
                THEN ' > ' || json_extract(chunks.metadata, '$.section_header') ELSE '' END
        || char(10) || char(10) || chunks.text
    FROM documents WHERE documents.id = chunks.document_id
);

CREATE VIRTUAL TABLE chunks_fts USING fts5 (
    enriched_text, content = 'chunks', content_rowid = 'id', tokenize = 'porter kbsync'
);
INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild');

CREATE TRIGGER chunks_fts_insert AFTER INSERT ON chunks BEGIN
    INSERT INTO chunks_fts (rowid, enriched_text) VALUES (new.id, new.enriched_text);
END;
CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) VALUES ('delete', old.id, old.enriched_text);
END;
CREATE TRIGGER chunks_fts_update AFTER UPDATE OF enriched_text ON chunks BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, enriched_text) VALUES ('delete', old.id, old.enriched_text);
    INSERT INTO chunks_fts (rowid, enriched_text) VALUES (new.id, new.enriched_text);
END;

-- Names of live origins, so that a file is found by what it is called. The row id is the origin's.
CREATE VIRTUAL TABLE names_fts USING fts5 (name, content = '', contentless_delete = 1, tokenize = 'porter kbsync');
