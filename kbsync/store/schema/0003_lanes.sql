-- Two lanes in the queue: what is text already, and what a converter must read first. Neither waits behind the other.

ALTER TABLE jobs ADD COLUMN lane TEXT NOT NULL DEFAULT 'text' CHECK (lane IN ('text', 'document'));
DROP INDEX jobs_next;
CREATE INDEX jobs_next ON jobs (lane, priority, sequence, id) WHERE state = 'queued';
