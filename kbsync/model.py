"""The frozen values that travel between the stages, and the protocols by which a stage asks for another's work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from kbsync.file_types import DocumentType
from kbsync.filesystem import Stat
from kbsync.reasons import FileState, Reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
Metadata = Mapping[str, JsonValue]


class Priority(IntEnum):
    """Who goes first, in the queue and at the embedder; the smaller number goes first."""

    QUERY = 0
    ADDED = 1
    EVENT = 2
    SCAN = 3
    LOW = 4


OcrMode = Literal["auto", "always", "never"]
OCR_MODES: tuple[OcrMode, ...] = get_args(OcrMode)
# Of a mirror every file stays where it is, of an inbox each one moves into the store. A project is none of the index:
# what is dropped into its sources/ becomes plain files beside it.
SourceMode = Literal["mirror", "inbox", "project"]

# By events where the file system tells every change, else by walks at short intervals; or one of them, come what may.
WatchMode = Literal["auto", "native", "polling"]

# ---- where files come from ----


@dataclass(frozen=True, slots=True)
class Source:
    """A configured folder. `path` is absolute and resolved; `id` is its row in the database."""

    id: int
    path: str
    mode: SourceMode = "mirror"
    recursive: bool = True
    include: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    ocr: OcrMode = "auto"
    password_file: str | None = None
    watch: WatchMode = "auto"


@dataclass(frozen=True, slots=True)
class Change:
    """A hint that something happened at a path: it says where to look, never what is there.

    `closed`: a writer closed the file, so it is likely whole. `gone`: something left this path. `scanned`: a walk came
    by it, no event: it is in no hurry.
    """

    source_id: int
    path: str
    closed: bool = False
    gone: bool = False
    scanned: bool = False


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What the ledger says of a path: the version last looked at and what became of it."""

    path: str
    stat: Stat | None
    state: FileState
    reason: Reason | None
    rules: str
    # It was read so soon after its last change that a later one may not show in its stat.
    hash_due: bool = False


@dataclass(frozen=True, slots=True)
class RootIdentity:
    """Which folder a source's root is. `filesystem`: what names its disk wherever it is plugged in, None where nothing
    does. `names`: a few of its entries, sorted. `mounts`: the folders below, relative, where another disk begins.

    `stable_inodes`: files keep their inode from look to look; some network and user-space file systems make them up.
    """

    filesystem: int | None
    device: int
    inode: int
    names: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    stable_inodes: bool = True


@dataclass(frozen=True, slots=True)
class Held:
    """What the brake holds: `missing` of `known` files. `since` and `looked_at`: wall times of the first look and of
    the last one that counts, `waited` the seconds between that are believed, `looks` how many count.
    """

    missing: int
    known: int
    since: float
    looks: int
    looked_at: float
    waited: float


# ---- what waits to be done ----

JobKind = Literal["path", "staged", "note"]
# Which workers take a job: text never waits behind a long document.
Lane = Literal["text", "document"]


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What a person set by hand; None leaves it to detection."""

    title: str | None = None
    type: DocumentType | None = None
    language: str | None = None
    ocr: OcrMode | None = None
    password_file: str | None = None
    # When it was taken in first, in seconds since 1970, of what is taken in again from a copy; None: now.
    created_at: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One claimed piece of work. `attempts` already counts this one; `generation` is the one that was claimed."""

    id: int
    kind: JobKind
    path: str
    source_id: int | None
    priority: Priority
    generation: int
    attempts: int
    staged_path: str | None
    options: IngestOptions
    lane: Lane = "text"


# ---- file -> text -> pieces ----


class TokenCounter(Protocol):
    """The embedder's own tokenizer, as far as others need it. Special tokens are not counted."""

    def count(self, text: str) -> int:
        """Return how many tokens the embedder makes of a text."""
        ...

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return each token's (start, end) in characters of the text, in order."""
        ...


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """Sizes of chunks in tokens of the embedder. `max_tokens` holds for the enriched text, title included."""

    min_tokens: int = 50
    max_tokens: int = 256
    overlap_tokens: int = 32
    include_context: bool = True
    max_chunks: int = 5000


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a document as its pipeline cut it, before it is enriched.

    `text` is what a person sees in a result. `section_header` is the chain `A > B`, None where there is none.
    Lines count from 1, both ends included; None for a note.
    """

    text: str
    kind: str
    section_header: str | None = None
    first_line: int | None = None
    last_line: int | None = None
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a pipeline makes of one text. `title` is None where the content names none: then the file's name counts."""

    pieces: tuple[Piece, ...]
    title: str | None = None
    language: str | None = None
    metadata: Metadata = field(default_factory=dict)
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece with its place, its enriched text (what is indexed and embedded) and the enriched text's token count."""

    position: int
    text: str
    enriched_text: str
    metadata: Metadata
    token_count: int


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """A document to convert in a child process. `path` is a private copy of its bytes, `name` what the user calls it.

    `kept` is the path of an earlier conversion of the same bytes, to be cut again without converting. `models` is the
    folder of Docling's own models; None: the packaged ones. `title` is one set by hand: pieces are headed with it.
    `markdown`: the whole text is wanted, and no pieces of it.
    """

    path: str
    name: str
    type: DocumentType
    content_hash: str
    ocr: OcrMode
    languages: tuple[str, ...]
    password: str | None
    limits: ChunkLimits
    tokenizer_json: str
    threads: int
    kept: str | None
    models: str | None = None
    title: str | None = None
    markdown: bool = False


@dataclass(frozen=True, slots=True)
class Conversion:
    """What came of it. `ocr_pages` (from 1) were read by OCR; `document` is Docling's JSON, compressed by zlib.

    `markdown` is the whole text where that was wanted; then there are no pieces.
    """

    parsed: Parsed
    page_count: int | None
    ocr_pages: tuple[int, ...]
    document: bytes
    converter: str
    markdown: str | None = None


# ---- pieces -> vectors ----


class Embedder(Protocol):
    """Texts to vectors. `fingerprint` names everything that decides a vector: model, dimension, prompts, limit."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def model_name(self) -> str: ...
    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str], priority: Priority) -> Vectors:
        """Return one normalised float32 row a text, in order, shape (len(texts), dimension). Blocks.

        `priority` QUERY embeds as a query, everything else as a passage. A text longer than the model reads gives
        the normalised mean of its windows. Raises FailFile(MODEL) where the model cannot be used.
        """
        ...


# ---- what is written ----

OriginKind = Literal["path", "added", "inbox", "note", "upload"]
TitleSource = Literal["hand", "content", "name"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Why a document is here."""

    kind: OriginKind
    path: str | None
    source_id: int | None


@dataclass(frozen=True, slots=True)
class DocumentUpdate:
    """Everything one transaction writes for one content. `vectors` has a row for each chunk."""

    content_hash: str
    title: str
    title_source: TitleSource
    type: DocumentType
    type_by_hand: bool
    language: str | None
    original_filename: str | None
    size_bytes: int
    page_count: int | None
    converter_fingerprint: str
    chunker_fingerprint: str
    metadata: Metadata
    chunks: tuple[Chunk, ...]
    vectors: Vectors | None
    reason: Reason | None
    # When it was taken in first; None: now.
    created_at: float | None = None


# ---- how it is found ----

SearchMode = Literal["hybrid", "lexical", "vector"]
SEARCH_MODES: tuple[SearchMode, ...] = get_args(SearchMode)
# vectors: every chunk embedded anew; stale: documents that older rules made, cut or converted anew; all: both, of all.
ReindexScope = Literal["vectors", "stale", "all"]
FilterField = Literal["type", "language", "source", "place", "title", "section", "since", "before"]


@dataclass(frozen=True, slots=True)
class Filter:
    """What a hit must be, or with `excluded` must not be: any of the values will do; several filters must all hold.

    `place`: an absolute path (the file, or all below the folder), or the name of a folder (`work/letters`). `title` and
    `section`: a phrase in it. `since` and `before`: when the file changed, in seconds since 1970.
    """

    field: FilterField
    values: tuple[str | float, ...]
    excluded: bool = False


class Reranker(Protocol):
    """A model that reads query and text together: better than comparing vectors, and far slower."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one score a text, 0 to 1, higher is better. Blocks. Raises FailFile(MODEL), RetryLater(MODEL)."""
        ...


@dataclass(frozen=True, slots=True)
class Hit:
    """One document found, by its best chunk. `path` is the lexically first live one, None for a note.

    Where nothing holds it any more, `path` is where it was last.

    `state` is `current`; of versions that are asked for too, `superseded` or `missing`.
    """

    rank: int
    score: float
    document_id: int
    chunk_id: int
    title: str
    type: str
    path: str | None
    paths: tuple[str, ...]
    section_header: str | None
    page: int | None
    state: str
    snippet: str
    text: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one query. `mode` is what was really done; `notice` says why where it is not what was asked."""

    query: str
    mode: SearchMode
    took_ms: float
    hits: tuple[Hit, ...]
    notice: str | None = None
