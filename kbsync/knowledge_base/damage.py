"""The closed list of what can be wrong with a knowledge base, each with a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Damage(StrEnum):
    """What is wrong, by the part that it is wrong with."""

    # the database file
    CORRUPT = "corrupt"
    SCHEMA = "schema"
    INDEXES = "indexes"
    FOREIGN_KEYS = "foreign_keys"
    ROW_IDS = "row_ids"
    # full text
    TOKENIZER = "tokenizer"
    FTS = "fts"
    FTS_MISSING = "fts_missing"
    FTS_EXTRA = "fts_extra"
    NAMES = "names"
    # vectors
    VECTOR_TABLES = "vector_tables"
    VECTORS_MISSING = "vectors_missing"
    VECTORS_EXTRA = "vectors_extra"
    VECTORS_BAD = "vectors_bad"
    VECTORS_STALE = "vectors_stale"
    # documents
    DOCUMENTS_UNEXPLAINED = "documents_unexplained"
    DOCUMENTS_STATE = "documents_state"
    CHUNKS_MISSING = "chunks_missing"
    TEXTS = "texts"
    # the ledger of paths
    PATHS_MISSING = "paths_missing"
    PATHS_GHOST = "paths_ghost"
    PATHS_TWICE = "paths_twice"
    LEDGER = "ledger"
    EXCLUSIONS = "exclusions"
    # the queue
    JOBS_STUCK = "jobs_stuck"
    JOBS_TWICE = "jobs_twice"
    STAGED_GONE = "staged_gone"
    # files of our own
    STORED_GONE = "stored_gone"
    STORED_DAMAGED = "stored_damaged"
    STORED_UNCLAIMED = "stored_unclaimed"
    STAGING = "staging"
    CONVERSIONS = "conversions"


SENTENCES: dict[Damage, str] = {
    Damage.CORRUPT: "The database file is damaged: what is in it cannot be trusted.",
    Damage.SCHEMA: "Parts of the database are not made as they should be: changes may not reach the index.",
    Damage.INDEXES: "Indexes of the database do not agree with its tables: rows may not be found.",
    Damage.FOREIGN_KEYS: "Rows name others that are not there.",
    Damage.ROW_IDS: "A new row could get the number of a deleted one, and answer in its place.",
    Damage.TOKENIZER: "Other rules made words of the text than search does: some are not found.",
    Damage.FTS: "The full-text index is out of step with the text: search may miss words, or find those that are gone.",
    Damage.FTS_MISSING: "Parts of documents have no full-text row: their words are not found.",
    Damage.FTS_EXTRA: "Full-text rows have no text any more.",
    Damage.NAMES: "File names and their index are out of step: files may not be found by name.",
    Damage.VECTOR_TABLES: "Tables of vectors are missing, or are nobody's: search by meaning may find nothing.",
    Damage.VECTORS_MISSING: "Parts of documents have no vector: they are not found by meaning.",
    Damage.VECTORS_EXTRA: "Vectors belong to no text any more.",
    Damage.VECTORS_BAD: "Vectors have a wrong length or are no numbers: search by meaning cannot use them.",
    Damage.VECTORS_STALE: "Vectors were made of another text than is there now: it is found by a meaning it has not.",
    Damage.DOCUMENTS_UNEXPLAINED: "Documents have no origin: nothing says why they are here.",
    Damage.DOCUMENTS_STATE: "Documents are shown that nothing holds, or hidden though something does.",
    Damage.CHUNKS_MISSING: "Documents lack parts of their text: what stood there is not found.",
    Damage.TEXTS: "Text stands under another title or section than its document's.",
    Damage.PATHS_MISSING: "Files count as indexed, and hold nothing: they are not found.",
    Damage.PATHS_GHOST: "Documents are shown at paths of which nothing is known any more.",
    Damage.PATHS_TWICE: "Paths hold two documents at once.",
    Damage.LEDGER: "Of files another content is remembered than they hold.",
    Damage.EXCLUSIONS: "Files that you removed are not known as such any more: they would come back.",
    Damage.JOBS_STUCK: "Jobs count as worked on, and nobody works on them: they would never end.",
    Damage.JOBS_TWICE: "Files wait in the queue more than once.",
    Damage.STAGED_GONE: "What was added waits to be read, and its copy is gone.",
    Damage.STORED_GONE: "The stored copies of documents are gone; their text is still found.",
    Damage.STORED_DAMAGED: "Stored copies of documents hold other bytes than they did; their text is still found.",
    Damage.STORED_UNCLAIMED: "Stored copies belong to no document: what is in them is not found.",
    Damage.STAGING: "Copies on their way in belong to no job any more.",
    Damage.CONVERSIONS: "Kept conversions cannot be read; they are made again when they are needed.",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of damage, how often it was found and where first (a path, or `document 3`).

    `repaired`: it is gone. `done`: what was done about it; `hint`: what a person can do.
    """

    kind: str
    detail: str
    count: int
    first: str = ""
    repaired: bool = False
    done: str = ""
    hint: str = ""
