"""What a backup and a restore came to, in JSON values."""

from __future__ import annotations

from kbsync.interfaces.records import Record, shown_path, time_of
from kbsync.knowledge_base.backup import Written
from kbsync.knowledge_base.restore import Restored, Root


def backup_record(written: Written) -> Record:
    """`{path, documents, chunks, stored_files, size_bytes, seconds, problems}`: a backup that is there."""
    found = written.manifest
    return {
        "path": shown_path(written.path),
        "documents": found.documents,
        "chunks": found.chunks,
        "stored_files": found.stored_files,
        "size_bytes": found.size_bytes,
        "seconds": round(written.seconds, 2),
        "problems": list(found.problems),
    }


def restored_record(done: Restored) -> Record:
    """What a restore did; `sources` of `{was, path, there}`, `config`: placed, mapped, kept, unusable or none.

    As `backup_record`, and `{made_at, sources, moved, set_aside, left_behind, config, config_differs, config_lacks,
    config_error}`; `config_lacks`: TOML with the sources that a kept config.toml does not name.
    """
    backup = done.backup
    return {
        **backup_record(Written(backup.folder, backup.manifest, done.seconds)),
        "made_at": time_of(backup.manifest.made_at),
        "sources": [_root_record(root) for root in backup.roots],
        "moved": done.moved,
        "set_aside": shown_path(done.set_aside),
        "left_behind": backup.left_behind,
        "config": done.configuration.outcome,
        "config_differs": list(done.configuration.differences),
        "config_lacks": done.configuration.lacks,
        "config_error": done.configuration.error,
    }


def _root_record(root: Root) -> Record:
    return {"was": shown_path(root.was), "path": shown_path(root.path), "there": root.there}
