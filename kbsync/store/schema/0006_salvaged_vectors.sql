-- Vectors of a damaged database that was set aside, by the text that they were made of, until the index is built anew:
-- nothing is embedded twice.

CREATE TABLE salvaged_vectors (
    fingerprint TEXT NOT NULL,
    text_hash BLOB NOT NULL,
    embedding BLOB NOT NULL,
    PRIMARY KEY (fingerprint, text_hash)
) STRICT;
