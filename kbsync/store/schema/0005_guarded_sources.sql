-- What keeps a folder's documents safe: which folder it was, who paused it, what the brake holds, what a person said.

-- JSON of model.RootIdentity: the folder as the last whole look knew it; NULL before the first one
ALTER TABLE sources ADD COLUMN identity TEXT;
-- since when it is in this state, for this reason
ALTER TABLE sources ADD COLUMN since REAL;
-- when a person paused it; NULL: nobody did
ALTER TABLE sources ADD COLUMN paused_at REAL;
-- JSON of model.Held: what the brake holds; NULL: nothing
ALTER TABLE sources ADD COLUMN held TEXT;
-- that many missing files a person said yes to; NULL: nobody did, or it is done
ALTER TABLE sources ADD COLUMN confirmed INTEGER;
-- files gone before this time count no more when the brake looks at the last hour
ALTER TABLE sources ADD COLUMN counted_from REAL NOT NULL DEFAULT 0;

-- 1: read so soon after its last change that a later one may not show in its stat; its bytes are to be hashed again
ALTER TABLE files ADD COLUMN hash_due INTEGER NOT NULL DEFAULT 0 CHECK (hash_due IN (0, 1));
-- Moves: the path that had this inode, and those that wait to be read and may hold what is missing elsewhere.
CREATE INDEX files_indexed_inode ON files (inode, size) WHERE state = 'indexed';
CREATE INDEX files_waiting_size ON files (size) WHERE state = 'waiting';

-- The bytes (SHA-256, hex) that a person took out of the index at this path: they stay out wherever they turn up as new.
ALTER TABLE files ADD COLUMN removed_hash TEXT;
CREATE INDEX files_removed ON files (removed_hash) WHERE removed_hash IS NOT NULL;
