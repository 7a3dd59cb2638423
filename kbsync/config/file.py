"""Edits of config.toml by the commands: comments and order are kept, the file is replaced whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import tomlkit
from tomlkit.items import AoT

from kbsync.config.locations import making_private, sync_names
from kbsync.config.settings import is_written, load_settings, may_hold
from kbsync.config.variables import refuse_embedder_fixed, refuse_sources_fixed
from kbsync.errors import ConfigurationError, KbsyncError, NotFound, UsageError, disk_full
from kbsync.model import SourceMode

# At the start of a text: lines with a key each, and then at once the head of a table.
_KEYS_BEFORE_A_TABLE = re.compile(r"\A((?:[\w-]+ *=[^\n]*\n)*)(?=\[)")


def add_source(
    config_file: str, path: str, *, recursive: bool = True, ignore: tuple[str, ...] = (), mode: SourceMode = "mirror"
) -> str:
    """Add a folder to `[[sources]]` and return its resolved path.

    Raises UsageError where it is no folder, is listed already, or lies inside (or around) a listed one.
    """
    resolved = followable(config_file, path, mode)
    with _alone(config_file):
        return _add(config_file, resolved, recursive, ignore, mode)


def add_sources(config_file: str, paths: Sequence[str], beginning: str) -> list[str]:
    """Add folders to `[[sources]]`, all or none, and return their resolved paths.

    Where there is no configuration yet, `beginning` is what it begins with. Raises as `add_source`.
    """
    resolved = [followable(config_file, path) for path in paths]
    with _alone(config_file):
        document = _parse(config_file) if is_written(config_file) else tomlkit.parse(beginning)
        for path in resolved:
            _refuse_covered(document, path)
            _append(document, path)
        text = tomlkit.dumps(document)
        for path in resolved:
            text = _set_apart(text, path)
        _replace(config_file, text)
    return resolved


def followable(config_file: str, path: str, mode: SourceMode = "mirror") -> str:
    """Return the resolved path of a folder that `add_source` would add. Raises as that does, and writes nothing."""
    refuse_sources_fixed(os.environ)
    resolved = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(resolved):
        raise UsageError(f"{path} is not a folder.", hint="Give a folder that exists.")
    try:
        resolved.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{resolved} has bytes in its name that are no UTF-8; config.toml cannot hold it.", hint="Rename it first."
        ) from error
    _refuse_covered(_parse(config_file), resolved, mode)
    return resolved


def listed(config_file: str) -> list[str]:
    """Return the resolved paths of the folders that the file lists, those of a variable aside."""
    return _listed(_parse(config_file))


def _listed(document: tomlkit.TOMLDocument) -> list[str]:
    return [os.path.realpath(os.path.expanduser(str(entry.get("path", "")))) for entry in _entries(document)]


def _refuse_covered(document: tomlkit.TOMLDocument, resolved: str, mode: SourceMode = "mirror") -> None:
    there = _listed(document)
    if resolved in there:
        raise UsageError(f"{resolved} is a source already.")
    for other, known in zip(there, _entries(document), strict=True):
        its = str(known.get("mode", "mirror"))
        is_outer = other.startswith(resolved.rstrip(os.sep) + os.sep)
        if not may_hold(*((mode, its) if is_outer else (its, mode))):
            _refuse_nested(resolved, other, covered=bool(known.get("recursive", True)))


def _add(config_file: str, resolved: str, recursive: bool, ignore: tuple[str, ...], mode: SourceMode) -> str:
    document = _parse(config_file)
    _refuse_covered(document, resolved, mode)
    _append(document, resolved, recursive, ignore, mode)
    _replace(config_file, _set_apart(tomlkit.dumps(document), resolved))
    return resolved


def _append(
    document: tomlkit.TOMLDocument,
    resolved: str,
    recursive: bool = True,
    ignore: tuple[str, ...] = (),
    mode: SourceMode = "mirror",
) -> None:
    entry = tomlkit.table()
    entry["path"] = resolved
    if mode != "mirror":
        entry["mode"] = mode
    if not recursive:
        entry["recursive"] = False
    if ignore:
        entry["ignore"] = list(ignore)
    if not isinstance(document.get("sources"), AoT) and not document.get("sources"):
        document["sources"] = tomlkit.aot()  # absent, or written as an empty list
    _entries(document).append(entry)


def _set_apart(text: str, resolved: str) -> str:
    """Return the file with an empty line around the entry of a folder, which is listed once."""
    before, head, after = text.partition(f"[[sources]]\npath = {tomlkit.item(resolved).as_string()}\n")
    if head and before and not before.endswith("\n\n"):
        before += "\n"
    return before + head + _KEYS_BEFORE_A_TABLE.sub(r"\1\n", after, count=1)


def _refuse_nested(resolved: str, other: str, *, covered: bool) -> None:
    if resolved.startswith(other.rstrip(os.sep) + os.sep):
        if covered:
            raise UsageError(f"{resolved} lies inside the source {other}, which covers it already.")
        raise UsageError(
            f"{resolved} lies inside the source {other}, which takes no folders inside it.",
            hint="Set `recursive = true` for that one in config.toml.",
        )
    if other.startswith(resolved.rstrip(os.sep) + os.sep):
        raise UsageError(
            f"The source {other} lies inside {resolved}.", hint=f"First `kbsync sources remove {other}`, then add this."
        )


def set_embedder(config_file: str, embedder: str) -> None:
    """Write which embedding model is used. Raises UsageError where a variable says so."""
    refuse_embedder_fixed(os.environ)
    with _alone(config_file):
        document = _parse(config_file)
        if "models" not in document:
            document["models"] = tomlkit.table()
        document["models"]["embedder"] = embedder
        _replace(config_file, tomlkit.dumps(document))


def place(config_file: str, text: str, over: str | None = None) -> bool:
    """Write a whole configuration where there is none yet, or none but `over`, and return whether that was so.

    Raises as edits do.
    """
    with _alone(config_file):
        if is_written(config_file) and text_of(config_file) != over:
            return False
        _replace(config_file, text)
        return True


def text_of(config_file: str) -> str:
    """Return what a configuration's file holds, whatever that is."""
    with open(config_file, encoding="utf-8", errors="replace") as file:
        return file.read()


def remove_source(config_file: str, path: str) -> str:
    """Take a folder out of `[[sources]]` and return its resolved path. Raises NotFound where it is not listed."""
    refuse_sources_fixed(os.environ)
    resolved = os.path.realpath(os.path.expanduser(path))
    with _alone(config_file):
        return _remove(config_file, resolved)


def _remove(config_file: str, resolved: str) -> str:
    document = _parse(config_file)
    entries = _entries(document)
    for index, entry in enumerate(entries):
        if os.path.realpath(os.path.expanduser(str(entry.get("path", "")))) == resolved:
            del entries[index]
            if not entries:
                del document["sources"]
            _replace(config_file, tomlkit.dumps(document))
            return resolved
    raise NotFound(f"{resolved} is not a source.", hint="`kbsync sources list` shows them.")


@contextmanager
def _alone(config_file: str) -> Iterator[None]:
    """Keep other commands from editing the file between the reading and the writing of it."""
    folder = os.path.dirname(os.path.realpath(config_file))
    try:
        with making_private():
            os.makedirs(folder, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be used: {error.strerror}.", hint="Make it writable; nothing was changed."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _entries(document: tomlkit.TOMLDocument) -> AoT:
    entries = document.get("sources")
    if not entries and not isinstance(entries, AoT):
        return tomlkit.aot()
    if not isinstance(entries, AoT):
        raise ConfigurationError("`sources` in config.toml must be written as [[sources]] tables.")
    return entries


def _parse(config_file: str) -> tomlkit.TOMLDocument:
    load_settings(config_file)  # a file with a mistake in it is not edited: the message names the mistake
    try:
        with open(config_file, encoding="utf-8") as file:
            return tomlkit.parse(file.read())
    except FileNotFoundError:
        return tomlkit.document()


def _replace(config_file: str, text: str) -> None:
    """Write beside the file, check what was written as settings, then rename over it (through a link: its target)."""
    # Never empty: an empty file is taken for one that was lost, and nothing follows from it.
    text = text if text.strip() else "# No source is configured.\n"
    target = os.path.realpath(config_file)
    folder = os.path.dirname(target)
    try:
        with making_private():
            os.makedirs(folder, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".config-", suffix=".toml")
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(config_file, error) from error
        try:
            load_settings(temporary)
        except ConfigurationError as error:
            raise UsageError(error.message.replace(temporary, config_file), hint="Nothing was changed.") from error
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_names(folder)


def _unwritable(path: str, error: OSError) -> KbsyncError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path)  # nothing is wrong with the configuration
    return ConfigurationError(
        f"{path} cannot be written: {error.strerror}.", hint="Make it writable; nothing was changed."
    )
