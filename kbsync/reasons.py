"""The closed list of states and reasons of a path, each with a sentence for people."""

from __future__ import annotations

from enum import StrEnum


class FileState(StrEnum):
    """What became of a path that was seen. Seen = indexed + waiting + skipped + failed; gone ones do not count."""

    INDEXED = "indexed"
    WAITING = "waiting"
    SKIPPED = "skipped"
    FAILED = "failed"
    GONE = "gone"


class Reason(StrEnum):
    """Why a path is in its state."""

    # indexed, but
    NO_TEXT = "no_text"
    TRUNCATED = "truncated"
    # waiting
    SETTLING = "settling"
    QUEUED = "queued"
    PROCESSING = "processing"
    RETRY = "retry"
    # skipped
    UNSUPPORTED = "unsupported"
    IGNORED = "ignored"
    TOO_LARGE = "too_large"
    EMPTY = "empty"
    BINARY = "binary"
    SYMLINK = "symlink"
    SPECIAL = "special"
    SECRET = "secret"
    CLOUD_ONLY = "cloud_only"
    REMOVED_BY_YOU = "removed_by_you"
    # failed
    CORRUPT = "corrupt"
    PASSWORD_REQUIRED = "password_required"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASHED = "crashed"
    TOO_COMPLEX = "too_complex"
    MODEL = "model"
    PERMISSION = "permission"
    IO = "io"
    NO_SPACE = "no_space"


SENTENCES: dict[Reason, str] = {
    Reason.NO_TEXT: "There is no text in it to search; it is found by its name.",
    Reason.TRUNCATED: "It is very large: only its first part is searchable.",
    Reason.SETTLING: "It changed a moment ago; it is read as soon as it is quiet.",
    Reason.QUEUED: "It is in the queue.",
    Reason.PROCESSING: "It is being read right now.",
    Reason.RETRY: "Reading it failed for a passing reason; it is tried again by itself.",
    Reason.UNSUPPORTED: "This type of file is not supported.",
    Reason.IGNORED: "An ignore rule leaves it out.",
    Reason.TOO_LARGE: "It is larger than the limit.",
    Reason.EMPTY: "It is empty.",
    Reason.BINARY: "Its content is binary data, not text.",
    Reason.SYMLINK: "It is a symbolic link; links are not followed.",
    Reason.SPECIAL: "It is not an ordinary file (a pipe, socket or device).",
    Reason.SECRET: "It looks like a key or a secret; those are never indexed.",
    Reason.CLOUD_ONLY: "Its content is in the cloud only; reading would download it.",
    Reason.REMOVED_BY_YOU: "You removed it; `kbsync add` brings it back.",
    Reason.CORRUPT: "Its content is damaged or not what its ending says.",
    Reason.PASSWORD_REQUIRED: "It is protected by a password.",
    Reason.TIMEOUT: "Reading it took longer than the time limit.",
    Reason.MEMORY: "Reading it took more memory than the limit.",
    Reason.CRASHED: "Reading it crashed several times; it is left alone until it changes.",
    Reason.TOO_COMPLEX: "Its structure is too deep or too large to read.",
    Reason.MODEL: "The model it needs is not available.",
    Reason.PERMISSION: "Permission to read it was denied.",
    Reason.IO: "Reading it from the disk failed.",
    Reason.NO_SPACE: "The disk is full.",
}
