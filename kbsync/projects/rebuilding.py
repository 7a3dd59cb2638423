"""Writes the whole of project.md anew from parsed/*.md: overview, key information, file index. The record stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kbsync.clock import Clock
from kbsync.projects import files, listing, manifest, page, parsed, reading, recovery, summary
from kbsync.projects.listing import Summarize
from kbsync.projects.page import Row
from kbsync.projects.parsed import ParsedFile
from kbsync.projects.project import Project, local
from kbsync.projects.sentences import Language, language_of

_KEY_POINTS, _PER_FILE, _OVERVIEW_SENTENCES, _KEY_TERMS = 12, 2, 3, 8
# So many names stand in the overview; the index has them all.
_NAMED = 30
_LOOKED_AT = 20_000

_SAID: dict[Language, tuple[str, str, str]] = {
    "zh": ("共 {count} 个文件：{names}。", "常见词：{terms}。", "以下句子由程序从原文中摘录，未经改写："),
    "ja": ("ファイル {count} 件：{names}。", "よく出る語：{terms}。", "以下は原文からの自動抜粋です："),
    "ko": ("파일 {count}개: {names}.", "자주 나오는 말: {terms}.", "아래는 원문에서 자동으로 발췌한 문장입니다:"),
    "other": (
        "{count} files: {names}.",
        "Frequent words: {terms}.",
        "These sentences were taken from the files by a program, as they stand:",
    ),
}


class Writer(Protocol):
    """A model that writes; each returns None where it cannot just now: then sentences are taken out instead."""

    def overview(self, texts: Sequence[tuple[str, str]]) -> str | None: ...
    def key_points(self, texts: Sequence[tuple[str, str]]) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How many files project.md lists now, and what was put right or is missing, a sentence each."""

    files: int
    notices: tuple[str, ...]


def rebuild(
    project: Project,
    clock: Clock,
    summarize: Summarize,
    writer: Writer | None = None,
    tell: Callable[[str], None] = lambda _file: None,
) -> Rebuilt:
    """Write project.md anew. Raises EngineBusy, StorageUnavailable and OSError."""
    with project.alone():
        listed, notices = recovery.made_whole(project, clock.now(), summarize)
        texts = parsed.read_all(project.parsed)
        rows, entries = [], {entry.name: entry for entry in listed.files}
        for text in texts:
            tell(text.path)
            told = summarize(text.text, text.source or text.path)
            entry = entries.get(text.name)
            rows.append(
                Row(text.name, text.path, text.archived if entry is None else entry.versions[-1].archived, told)
            )
            if entry is not None:
                entries[text.name] = replace(entry, summary=told)
        there = {text.name for text in texts}
        notices += [
            f"{entry.parsed} is gone: copy {entry.versions[-1].archived} to sources/{entry.name}{entry.ext}."
            for entry in listed.files
            if entry.name not in there
        ]
        record = page.entries(listing.read_page(project))
        record += [line for line in recovery.record_of(listed) if line not in record]
        record.append(f"- {local(clock.now()):%Y-%m-%d %H:%M}: 重建 project.md")
        proses = [reading.prose(text.text, text.source) for text in texts]
        overview, key_points = _overview(texts, proses, writer), _key_points(texts, proses, writer)
        files.replace(project.page, page.composed(listed.project, overview, key_points, rows, record))
        manifest.write(project, replace(listed, files=tuple(entries[entry.name] for entry in listed.files)))
    return Rebuilt(len(rows), tuple(notices))


def _overview(texts: Sequence[ParsedFile], proses: Sequence[str], writer: Writer | None) -> str:
    if not texts:
        return ""
    written = None if writer is None else writer.overview(_named(texts, proses))
    if written is not None:
        return written
    files_, terms, taken = _SAID[_language(proses)]
    names = [text.name for text in texts[:_NAMED]] + ["…"] * (len(texts) > _NAMED)
    lines = [files_.format(count=len(texts), names=", ".join(names))]
    found = summary.key_terms(proses, _KEY_TERMS)
    if found:
        lines.append(terms.format(terms=", ".join(found)))
    quoted = summary.extracts(proses, _OVERVIEW_SENTENCES, 1)
    if quoted:
        lines += ["", taken, "", *(f"> {one.sentence}" for one in quoted)]
    return "\n".join(lines)


def _key_points(texts: Sequence[ParsedFile], proses: Sequence[str], writer: Writer | None) -> str:
    written = None if writer is None or not texts else writer.key_points(_named(texts, proses))
    if written is not None:
        return written
    found = summary.extracts(proses, _KEY_POINTS, _PER_FILE)
    if not found:
        return ""
    lines = [f"- {one.sentence} ({texts[one.origin].path})" for one in found]
    return "\n".join([_SAID[_language(proses)][2], "", *lines])


def _language(proses: Sequence[str]) -> Language:
    """Return the language of the texts together, each with a share of what is looked at."""
    share = max(1, _LOOKED_AT // max(1, len(proses)))
    return language_of("\n".join(prose[:share] for prose in proses))


def _named(texts: Sequence[ParsedFile], proses: Sequence[str]) -> list[tuple[str, str]]:
    return [(text.path, prose) for text, prose in zip(texts, proses, strict=True)]
