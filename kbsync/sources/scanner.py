"""The walk over a source and the look at a single path: what is there, and the verdict of the rules on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from errno import EAGAIN, ENOTDIR, EPERM

from kbsync.filesystem import FileSystem, Stat
from kbsync.model import Source
from kbsync.reasons import Reason
from kbsync.sources.ignore import FOLDER_RULES, IgnoreRules, rules_for

# Of a rule file that is longer only the start is read: nobody writes that many rules by hand.
_RULES_BYTES = 1_000_000
# Linux takes no longer path in a call, its closing NUL included: such a file can be seen, but not opened.
_PATH_MAX = 4096


@dataclass(frozen=True, slots=True)
class Seen:
    """One path as it was looked at. `reason` is None where it is to be indexed; `rules` is the judging fingerprint.

    A folder appears only where it is not entered: left out by a rule, or unreadable (PERMISSION or IO).
    """

    path: str
    stat: Stat
    reason: Reason | None
    rules: str


# Gets path, stat and the fingerprint of the rules in its folder.
IsIndexed = Callable[[str, Stat, str], bool]


class Walk:
    """One walk over a source, depth first, in the order of names. Iterate it once, to the end.

    `ended` becomes True only when the walk came to its end and the root was the same all the time: nothing may be
    concluded from a path's absence otherwise, nor ever below what `errors` tells that could not be read. `complete`:
    ended, and every folder was read. `files` counts the paths that are no folders. `entered` are the folders that were
    read, path to inode, `left_out` those that a rule leaves out, `mounts` (relative) those where another disk begins,
    `root_names` the root's entries.
    """

    def __init__(
        self,
        fs: FileSystem,
        source: Source,
        own: frozenset[tuple[int, int]],
        stop: Callable[[], bool],
        is_indexed: IsIndexed | None,
    ) -> None:
        self._fs = fs
        self._is_indexed = is_indexed
        self._source = source
        self._own = own
        self._stop = stop
        self._errors: list[tuple[str, OSError]] = []
        self.ended = False
        self.complete = False
        self.files = 0
        self.entered: dict[str, int] = {}
        self.left_out: set[str] = set()
        self.mounts: list[str] = []
        self.root_names: tuple[str, ...] = ()

    @property
    def folders(self) -> int:
        """How many folders were entered."""
        return len(self.entered)

    @property
    def errors(self) -> tuple[tuple[str, OSError], ...]:
        """What could not be read: (path, error)."""
        return tuple(self._errors)

    def __iter__(self) -> Iterator[Seen]:
        root = self._source.path
        rules = rules_for(self._source, self._own)
        try:
            before = _root_stat(self._fs, root, self._own)
            pending = [(root, "", before, rules)]
            while pending:
                if self._stop():
                    return
                path, relative, stat, rules = pending.pop()
                below: list[tuple[str, str, Stat, IgnoreRules]] = []
                for seen in self._folder(path, relative, stat, rules, below):
                    if self._stop():
                        return
                    self.files += seen.stat.kind != "directory"
                    yield seen
                pending.extend(reversed(below))
            after = _root_stat(self._fs, root, self._own)
        except OSError as error:
            self._errors.append((root, error))
            return
        if _identity(after) != _identity(before):
            self._errors.append((root, OSError(EAGAIN, "was replaced during the walk", root)))
            return
        self.ended = True
        self.complete = not self._errors

    def _folder(
        self, path: str, relative: str, stat: Stat, rules: IgnoreRules, below: list[tuple[str, str, Stat, IgnoreRules]]
    ) -> Iterator[Seen]:
        """Yield a folder's files and the folders that are not entered; append those that are to `below`."""
        try:
            entries = sorted(self._fs.list_directory(path), key=lambda entry: entry.name)
            stats = {entry.name: entry.stat for entry in entries if entry.name in FOLDER_RULES}
            rules = _with_rule_files(self._fs, rules, path, relative, stats)
        except OSError as error:
            if not relative:
                raise
            if isinstance(error, FileNotFoundError):
                return  # it went while we walked: what was below is gone with it
            self._errors.append((path, error))
            yield Seen(path, stat, _reason_of(error), rules.fingerprint)
            return
        self.entered[path] = stat.inode
        if not relative:
            self.root_names = tuple(entry.name for entry in entries)
        inner_start, full_start = f"{relative}/" if relative else "", os.path.join(path, "")
        is_indexed, fingerprint = self._is_indexed, rules.fingerprint
        for entry in entries:
            full = full_start + entry.name
            if is_indexed is not None and is_indexed(full, entry.stat, fingerprint):
                self.files += 1
                continue
            inner = inner_start + entry.name
            if entry.stat.kind != "directory":
                too_long = len(os.fsencode(full)) >= _PATH_MAX
                reason = Reason.IO if too_long else rules.judge_file(inner, entry.stat)
                yield Seen(full, entry.stat, reason, rules.fingerprint)
            elif self._source.recursive:
                reason = rules.judge_folder(inner, entry.stat)
                if reason is None:
                    below.append((full, inner, entry.stat, rules))
                    if entry.stat.device != stat.device:
                        self.mounts.append(inner)
                else:
                    self.left_out.add(full)
                    yield Seen(full, entry.stat, reason, rules.fingerprint)


def scan(
    fs: FileSystem,
    source: Source,
    own: frozenset[tuple[int, int]] = frozenset(),
    stop: Callable[[], bool] = lambda: False,
    is_indexed: IsIndexed | None = None,
) -> Walk:
    """Return a walk over a source that has not begun yet. `own`: (device, inode) of kbsync's own data folders.

    `stop` is asked before every folder and every path that is yielded; once it says True the walk ends and stays
    incomplete. Files of which `is_indexed`
    says that nothing follows from the look at them are counted, not judged nor yielded: of most files that saves most
    of the time.
    """
    return Walk(fs, source, own, stop, is_indexed)


def judge_path(fs: FileSystem, source: Source, own: frozenset[tuple[int, int]], path: str) -> Seen | None:
    """Give one path of a source the verdict that a walk gives it.

    Where a folder on the way is not entered, the answer is about that folder, as in a walk. None where there is
    nothing to judge: the path is gone, is a folder that is entered (rescan it), or is not the source's.
    Raises OSError where the root itself cannot be looked at.
    """
    prefix = source.path.rstrip(os.sep) + os.sep
    names = [name for name in path.removeprefix(prefix).split(os.sep) if name]
    if not path.startswith(prefix) or not names or ".." in names or (len(names) > 1 and not source.recursive):
        return None
    folder, relative, stat = source.path, "", _root_stat(fs, source.path, own)
    rules = rules_for(source, own)
    for depth, name in enumerate(names, start=1):
        inner, full = f"{relative}/{name}" if relative else name, os.path.join(folder, name)
        try:
            inside = _with_rule_files(fs, rules, folder, relative, _rule_files(fs, folder))
            entry = fs.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if not relative:
                raise
            return Seen(folder, stat, _reason_of(error), rules.fingerprint)
        if entry.kind != "directory":
            # Nothing is looked at below a link: then the link is the answer. Below a file there is nothing.
            if depth < len(names) and entry.kind != "symlink":
                return None
            return Seen(full, entry, inside.judge_file(inner, entry), inside.fingerprint)
        reason = inside.judge_folder(inner, entry) if source.recursive else None
        if reason is not None:
            return Seen(full, entry, reason, inside.fingerprint)
        folder, relative, stat, rules = full, inner, entry, inside
    return None


def _root_stat(fs: FileSystem, root: str, own: frozenset[tuple[int, int]]) -> Stat:
    stat = fs.lstat(root)
    if stat.kind != "directory":
        raise NotADirectoryError(ENOTDIR, "is not a folder", root)
    if is_own(fs, root, own):
        raise PermissionError(EPERM, "belongs to kbsync itself", root)
    return stat


def is_own(fs: FileSystem, path: str, own: frozenset[tuple[int, int]]) -> bool:
    """Say whether a path, or a folder that it lies in, is kbsync's own: those are never read. Raises OSError."""
    while own:
        if _identity(fs.lstat(path)) in own:
            return True
        above = os.path.dirname(path)
        if above == path:
            return False
        path = above
    return False


def _rule_files(fs: FileSystem, folder: str) -> dict[str, Stat]:
    found = {}
    for name in FOLDER_RULES:
        try:
            found[name] = fs.lstat(os.path.join(folder, name))
        except FileNotFoundError:
            continue
    return found


def _with_rule_files(
    fs: FileSystem, rules: IgnoreRules, folder: str, relative: str, found: Mapping[str, Stat]
) -> IgnoreRules:
    """Add a folder's rule files. One that is there and cannot be read raises: without it, too much would be indexed."""
    for name in FOLDER_RULES:
        # A link is not followed, here neither; git does not follow it either.
        if name in found and found[name].kind == "file":
            try:
                text = _start_of(fs, os.path.join(folder, name))
            except FileNotFoundError:
                continue
            except OSError as error:
                error.filename = os.path.join(folder, name)  # it is what must be mended, not its folder
                raise
            rules = rules.with_folder_rules(relative, text.decode("utf-8", "surrogateescape"))
    return rules


def _start_of(fs: FileSystem, path: str) -> bytes:
    content = b""
    with fs.open_file(path) as file:
        while len(content) < _RULES_BYTES and (block := file.read(_RULES_BYTES - len(content))):
            content += block
    return content


def _reason_of(error: OSError) -> Reason:
    return Reason.PERMISSION if isinstance(error, PermissionError) else Reason.IO


def _identity(stat: Stat) -> tuple[int, int]:
    return stat.device, stat.inode
