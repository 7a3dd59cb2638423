"""Explains a path by a look at it now: what the ledger does not know yet, and which rule it is that leaves it out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kbsync.errors import FailFile, FileGone, RetryLater, SkipFile
from kbsync.filesystem import FileSystem, as_text
from kbsync.knowledge_base.adding import Adding
from kbsync.knowledge_base.explain import Explanation, said
from kbsync.model import IngestOptions, Source
from kbsync.reasons import SENTENCES, FileState, Reason
from kbsync.sources.full_disk_access import AccessWithheld
from kbsync.sources.scanner import judge_path

_NOT_INCLUDED = "No pattern of `include` takes it in."


@dataclass(frozen=True, slots=True)
class Looks:
    """What is needed to look at a path as a walk or `add` would. Any thread may ask."""

    fs: FileSystem
    own: frozenset[tuple[int, int]]
    adding: Adding

    def unseen(self, sources: Iterable[Source], path: str) -> Explanation | None:
        """Explain a path that the ledger does not know: what a walk, or `add`, would make of it.

        None where nothing is there, where it is a folder, and where `add` would take it in.
        """
        source = _source_of(sources, path)
        try:
            kind = self.fs.lstat(path).kind
            if source is not None:
                return self._in_source(source, path)
        except OSError:
            return None
        return None if kind == "directory" else self._by_hand(path)

    def made_exact(self, sources: Iterable[Source], found: Explanation) -> Explanation:
        """Say of a path that a rule leaves out where it is `include` that does not take it in.

        Of one that may not be read, what the system asks for now: the ledger may know an older Python.
        """
        source = _source_of(sources, found.path)
        if found.reason == Reason.PERMISSION and (withheld := self._withheld(source, found.path)) is not None:
            return replace(found, detail=f"{SENTENCES[Reason.PERMISSION]} {withheld}")
        if found.reason != Reason.IGNORED or source is None or not source.include:
            return found
        try:
            without = judge_path(self.fs, replace(source, include=()), self.own, found.path)
        except OSError:
            return found
        if without is None or without.reason is Reason.IGNORED:
            return found
        return replace(found, detail=_NOT_INCLUDED)

    def _withheld(self, source: Source | None, path: str) -> str | None:
        """Say where on the way to a path, from its source's folder on, macOS lets nobody in who is not allowed."""
        places, root = [path], path if source is None else source.path
        while len(places[-1]) > len(root):
            places.append(os.path.dirname(places[-1]))
        for place in reversed(places):
            try:
                if self.fs.lstat(place).kind == "directory":
                    self.fs.list_directory(place)
                else:
                    self.fs.open_file(place).close()
            except AccessWithheld as error:
                return f"{as_text(place)}: {error.strerror}."
            except OSError:
                continue
        return None

    def _in_source(self, source: Source, path: str) -> Explanation | None:
        seen = judge_path(self.fs, source, self.own, path)
        if seen is None:
            inside = path.removeprefix(source.path.rstrip(os.sep) + os.sep)
            if source.recursive or os.sep not in inside:
                return None
            detail = f"The source {as_text(source.path)} takes no folders inside it (recursive = false)."
            return Explanation(path, FileState.SKIPPED, Reason.IGNORED, detail, None, None)
        if seen.reason is None:
            detail = f"It was not looked at yet; the next look at {as_text(source.path)} takes it in."
            return Explanation(path, FileState.WAITING, Reason.SETTLING, detail, None, None)
        state = FileState.FAILED if seen.reason in (Reason.PERMISSION, Reason.IO) else FileState.SKIPPED
        detail = said(state, seen.reason, None, path)
        if seen.path != path:
            detail = f"It lies in {as_text(seen.path)}: {detail}"
        return self.made_exact([source], Explanation(path, state, seen.reason, detail, None, None))

    def _by_hand(self, path: str) -> Explanation | None:
        try:
            self.adding.look_at(path, IngestOptions())
        except SkipFile as error:
            state, reason = FileState.SKIPPED, error.reason
            detail = said(state, reason, str(error), path)
        except FailFile as error:
            state, reason = FileState.FAILED, error.reason
            detail = said(state, reason, str(error), path)
        except (FileGone, RetryLater):
            return None
        else:
            return None
        outside = "It is in no followed folder, and `kbsync add` cannot take it in."
        return Explanation(path, state, reason, f"{outside} {detail}", None, None)


def _source_of(sources: Iterable[Source], path: str) -> Source | None:
    return next((source for source in sources if path.startswith(source.path.rstrip(os.sep) + os.sep)), None)
