"""`kbsync documents export` and `open`: a document's own bytes, as a file again."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from kbsync.errors import KbsyncError, NotFound, UsageError
from kbsync.interfaces.cli.exits import complain, errors_told
from kbsync.interfaces.cli.output import Record, line, print_json
from kbsync.interfaces.cli.session import locations, session

if TYPE_CHECKING:
    from kbsync.interfaces.cli.remote import Remote
    from kbsync.interfaces.operations import Operations

DocumentNamed = Annotated[
    str, typer.Argument(metavar="ID|PATH", help="A document's number, or a file that holds it (`./7` for a file 7).")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_PIECE = 1 << 20
_LARGEST_ID = (1 << 63) - 1
# What no file of a note is called: separators and control characters. Bytes of the longest name, its ending left out.
_NOT_IN_NAMES = re.compile(r"[/\\\x00-\x1f\x7f-\x9f]+")
_LONGEST_NAME = 200


def export(
    document: DocumentNamed,
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Where to write it.")] = ".",
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file of that name.")] = False,
    as_json: _Json = False,
) -> None:
    """Write a document's bytes to a file: kbsync's own copy, or the file as it is in its folder; a note's text."""
    with errors_told():
        folder = os.path.abspath(to)
        if not os.path.isdir(folder):
            raise UsageError(f"{to} is not a folder.", hint="Give a folder that exists with --to.")
        with session() as operations:
            found = _content(operations, document)
        target = os.path.join(folder, _name(found))
        if not force and os.path.lexists(target):
            raise UsageError(f"{target} is there already.", hint="--force overwrites it, --to names another folder.")
        changed = _write(found, target, force=force)
    if as_json:
        size = os.path.getsize(target)
        print_json({"id": found["id"], "path": _shown(target), "size_bytes": size, "changed": changed})
    else:
        line(f"Wrote {_shown(target)}.")


def open_document(document: DocumentNamed, as_json: _Json = False) -> None:
    """Open a document with the program that your desktop uses for it. Of a note or a kept file a copy is opened."""
    with errors_told():
        with session() as operations:
            found = _content(operations, document)
        path = next((file for file in found["files"] if os.path.isfile(file)), None)
        if path is None:
            path = _open_copy(found)
        else:
            _open(path, f"Open {path} with a program of your own.")
    if as_json:
        print_json({"id": found["id"], "path": _shown(path)})
    else:
        line(f"Opened {_shown(path)}.")


def number_of(operations: Remote | Operations, document: str) -> int:
    """Return the number of a document that is named by it or by a path. Raises NotFound and UsageError."""
    number = _number(document)
    return number if number is not None else int(operations.content(path=os.path.abspath(document))["id"])


def _content(operations: Remote | Operations, document: str) -> Record:
    """Ask where a document's bytes are. Raises NotFound."""
    number = _number(document)
    if number is not None:
        return operations.content(document_id=number)
    return operations.content(path=os.path.abspath(document))


def _number(document: str) -> int | None:
    """Return the number that was given; None for a path, which is anything but digits."""
    return min(int(document), _LARGEST_ID) if document.isdecimal() and document.isascii() else None


def _name(found: Record) -> str:
    """Return what the file is called: a file's own name, of a note its title as a name."""
    name = str(found["name"])
    if found["text"] is None:
        return name
    stem, ending = os.path.splitext(_NOT_IN_NAMES.sub("-", name).strip(". "))
    return (stem.encode("utf-8", "replace")[:_LONGEST_NAME].decode("utf-8", "ignore") or "note") + ending


def _write(found: Record, target: str, *, force: bool) -> bool:
    """Write the bytes whole or not at all; return whether the file changed since it was indexed. Raises NotFound."""
    temporary = os.path.join(os.path.dirname(target), f".kbsync-{uuid.uuid4().hex}")
    try:
        if found["text"] is not None:
            with open(temporary, "xb") as file:
                file.write(str(found["text"]).encode())
            changed = False
        else:
            with open(temporary, "xb") as file:
                changed = _copied(found, file, target)
        _placed(temporary, target, force=force)
    except OSError as error:
        folder = os.path.dirname(target)
        raise KbsyncError(
            f"The folder {folder} cannot be written to: {error.strerror}.", hint="Give another one with --to."
        ) from error
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
    if changed:
        complain(f"{target} has changed since it was indexed; this is what it holds now.")
    return changed


def _copied(found: Record, file: BinaryIO, target: str) -> bool:
    """Copy the first file that holds the indexed bytes, else the first that is there; return whether it changed.

    Raises OSError where it cannot be written.
    """
    there = []
    for path in [*([found["copy"]] if found["copy"] else []), *found["files"]]:
        if os.path.exists(target) and os.path.exists(path) and os.path.samefile(path, target):
            raise UsageError(f"{target} is the document itself.", hint="Give another folder with --to.")
        content_hash = _copy(path, file)
        if content_hash == found["content_hash"]:
            return False
        # Else it is gone, or not readable now: another one may be. A copy that holds other bytes is damaged.
        if content_hash is not None and path != found["copy"]:
            there.append(path)
    if not there:
        raise NotFound(
            f"No file holds document {found['id']} any more, and {_of_copy(found)}",
            hint=f"`kbsync documents show {found['id']}` prints the text that was read.",
        )
    _copy(there[0], file)
    return True


def _of_copy(found: Record) -> str:
    """Say why there is no copy of kbsync's own to take a document from."""
    if found["damaged"]:
        return f"kbsync's copy of it is damaged: what is left of it is {_shown(found['damaged'][-1])}."
    if found["copy"] is None:
        return "kbsync keeps no copy of files in followed folders."
    state = "damaged" if os.path.lexists(found["copy"]) else "gone"
    return f"kbsync's copy of it, {_shown(found['copy'])}, is {state}."


def _copy(path: str, file: BinaryIO) -> str | None:
    """Copy an ordinary file over what was copied before and return the SHA-256 of what was read; None: not readable.

    Raises OSError where it cannot be written.
    """
    digest = hashlib.sha256()
    file.seek(0)
    file.truncate()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0) | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as source:
        while True:
            try:
                piece = source.read(_PIECE)
            except OSError:
                return None
            if not piece:
                return digest.hexdigest()
            digest.update(piece)
            file.write(piece)


def _placed(temporary: str, target: str, *, force: bool) -> None:
    """Give a finished file its name; without `force` never over another one, however late that came."""
    if force:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise UsageError(f"{target} is there already.", hint="--force overwrites it.") from error
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise UsageError(f"{target} is there already.", hint="--force overwrites it.") from None
        os.rename(temporary, target)


def _open_copy(found: Record) -> str:
    """Write a copy, open it and return where it lies: in a folder that the next start of the daemon empties."""
    folder = os.path.join(locations().opened_dir, uuid.uuid4().hex)
    path = os.path.join(folder, _name(found))
    try:
        os.makedirs(folder, mode=0o700)
        _write(found, path, force=False)
        _open(
            path, f"`kbsync documents export {found['id']}` writes it to a file; open that with a program of your own."
        )
    except OSError as error:
        raise KbsyncError(f"{folder} cannot be written: {error.strerror}.", hint="Free some space.") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # nobody knows of it
        raise
    return path


def _open(path: str, hint: str) -> None:
    opener = "open" if sys.platform == "darwin" else "xdg-open"
    program = shutil.which(opener)
    if program is None:
        raise KbsyncError(f"There is no {opener} to open {os.path.basename(path)} with.", hint=hint)
    if subprocess.run([program, path], check=False).returncode:
        raise KbsyncError(f"{opener} could not open {os.path.basename(path)}.", hint=hint)


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
