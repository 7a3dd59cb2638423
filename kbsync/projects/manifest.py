"""manifest.json: which files a project holds, in which versions. Read and checked, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kbsync.errors import KbsyncError
from kbsync.projects import files
from kbsync.projects.project import Project, same_name


class BrokenManifest(KbsyncError):
    """manifest.json is no manifest: it is set aside and built anew from the files."""


@dataclass(frozen=True, slots=True)
class Version:
    """One ingest of a file. `hash` is `sha256:...` of its bytes, `ingested_at` local time as `2026-02-18T16:00`."""

    archived: str
    hash: str
    ingested_at: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A file by its name without ending; `versions` the oldest first. `summary` is what was written of it last.

    `more`: fields of later programs, kept as they are.
    """

    name: str
    ext: str
    parsed: str
    versions: tuple[Version, ...]
    summary: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole list. Times as in `Version`; `last_ingest` None before the first one."""

    project: str
    created_at: str
    last_ingest: str | None
    files: tuple[Entry, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def entry(self, name: str) -> Entry | None:
        """Return the entry of a name, whatever its case and composition."""
        wanted = same_name(name)
        return next((entry for entry in self.files if entry.name == name or same_name(entry.name) == wanted), None)

    def archived(self) -> frozenset[str]:
        """Return where all versions lie."""
        return frozenset(version.archived for entry in self.files for version in entry.versions)

    def with_version(self, name: str, ext: str, parsed: str, version: Version, summary: str) -> Manifest:
        """Return the manifest with one more version of a file, a new file at the end."""
        known = self.entry(name)
        if known is None:
            entry = Entry(name, ext, parsed, (version,), summary)
            kept = (*self.files, entry)
        else:
            entry = replace(known, versions=(*known.versions, version), summary=summary)
            kept = tuple(entry if other is known else other for other in self.files)
        return replace(self, files=kept, last_ingest=version.ingested_at)


def read(project: Project) -> Manifest:
    """Read a project's manifest. Raises BrokenManifest where it is missing or none."""
    try:
        with open(project.manifest, encoding="utf-8-sig") as file:
            return _manifest(json.load(file))
    except FileNotFoundError as error:
        raise BrokenManifest(f"{project.manifest} is gone.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BrokenManifest(f"{project.manifest} is no manifest: {_why(error)}.") from error


def write(project: Project, manifest: Manifest) -> None:
    """Write it whole, on the disk when this returns. Raises StorageUnavailable."""
    files.replace(project.manifest, json.dumps(_record(manifest), ensure_ascii=False, indent=2) + "\n")


def _manifest(record: Any) -> Manifest:
    known = {"project", "created_at", "last_ingest", "files"}
    last = record["last_ingest"]
    entries = tuple(_entry(entry) for entry in _list(record["files"]))
    if len({same_name(entry.name) for entry in entries}) < len(entries):
        raise ValueError("a name stands in it twice")
    return Manifest(
        _text(record["project"]),
        _text(record["created_at"]),
        None if last is None else _text(last),
        entries,
        _more(record, known),
    )


def _entry(record: Any) -> Entry:
    known = {"name", "ext", "parsed", "versions", "summary"}
    name, parsed = _text(record["name"]), _inside(record["parsed"])
    versions = tuple(
        Version(_inside(one["archived"]), _text(one["hash"]), _text(one["ingested_at"]))
        for one in _list(record["versions"])
    )
    if not versions or "/" in name:
        raise ValueError(f"{name!r:.80} is no file with a version")
    return Entry(name, _text(record["ext"]), parsed, versions, _text(record.get("summary", "")), _more(record, known))


def _record(manifest: Manifest) -> dict[str, Any]:
    entries = [
        {
            "name": entry.name,
            "ext": entry.ext,
            "parsed": entry.parsed,
            "summary": entry.summary,
            "versions": [
                {"archived": one.archived, "hash": one.hash, "ingested_at": one.ingested_at} for one in entry.versions
            ],
            **entry.more,
        }
        for entry in manifest.files
    ]
    return {
        "project": manifest.project,
        "created_at": manifest.created_at,
        "last_ingest": manifest.last_ingest,
        "files": entries,
        **manifest.more,
    }


def _more(record: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the fields that are not known. Raises ValueError for what could be read and not be written back."""
    more = {key: value for key, value in record.items() if key not in known}
    json.dumps(more, ensure_ascii=False, allow_nan=False).encode()
    return more


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text was expected, not {value!r:.40}")
    value.encode()  # half a character could not be written back
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r:.40}")
    return value


def _inside(value: Any) -> str:
    """Return a path in the project. One that leads out of it is none of ours."""
    path = _text(value)
    if os.path.isabs(path) or ".." in path.split("/"):
        raise ValueError(f"{path!r:.80} is not in the project")
    return path


def _why(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
