"""Room on the disk and in memory: for the database, for writing it anew, and for the processes that read documents."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass

from kbsync.interfaces.doctor.finding import Finding, fine, problem, warning
from kbsync.interfaces.doctor.patience import within
from kbsync.interfaces.doctor.storage import nearest, shown_size
from kbsync.interfaces.doctor.subject import Subject

_MB = 1 << 20
# The write-ahead log grows to this size before it is brought back; with less, commits fail (bytes).
LEAST_BYTES = 128 * _MB
_LEAST_FILES = 1000
_LOOK_S = 3.0
# A process with the embedding model, and the daemon itself (bytes).
EMBEDDER_BYTES, DAEMON_BYTES = 1 << 30, 1 << 29


@dataclass(frozen=True, slots=True)
class Disk:
    """Where kbsync's data lie: `free` bytes for this user, `files` that can still be made (None: no limit).

    `database` and `temporary` are the bytes of the database and those free in the folder for temporary files, which is
    on the same disk where `is_shared`.
    """

    folder: str
    free: int
    files: int | None
    database: int
    temporary_folder: str
    temporary: int
    is_shared: bool


def look_at_disk(subject: Subject) -> list[Finding]:
    """Examine the disk of the data folder."""
    places = subject.places

    def look() -> Disk:
        there, temporary = nearest(places.data_dir), tempfile.gettempdir()
        disk, other = os.statvfs(there), os.statvfs(temporary)
        return Disk(
            places.data_dir,
            disk.f_bavail * disk.f_frsize,
            disk.f_favail if disk.f_files else None,
            shown_size(places.database),
            temporary,
            other.f_bavail * other.f_frsize,
            os.stat(there).st_dev == os.stat(temporary).st_dev,
        )

    return judge_disk(within(_LOOK_S, look))


def judge_disk(disk: Disk) -> list[Finding]:
    """Say whether there is room to go on, and to write the database anew, as compaction and `purge` do."""
    free = f"{disk.free / 1e6:,.0f} MB are free on the disk of {disk.folder}"
    if disk.free < LEAST_BYTES:
        wanted = (LEAST_BYTES - disk.free) / 1e6
        return [
            problem(
                f"{free}; kbsync wants {LEAST_BYTES / 1e6:.0f} MB to write safely.",
                f"Free at least {wanted:,.0f} MB on the disk that holds {disk.folder}.",
            )
        ]
    if disk.files is not None and disk.files < _LEAST_FILES:
        return [
            problem(
                f"Only {disk.files} more files can be made on the disk of {disk.folder}.",
                f"Delete files that you do not need on the disk that holds {disk.folder}.",
            )
        ]
    # Written anew, the database is there twice, and once more among the temporary files.
    wanted_here = disk.database * (2 if disk.is_shared else 1) + LEAST_BYTES
    if disk.database and disk.free < wanted_here:
        return [
            warning(
                f"{free}; to compact the database {wanted_here / 1e6:,.0f} MB are wanted.",
                f"Free {(wanted_here - disk.free) / 1e6:,.0f} MB on the disk that holds {disk.folder}.",
            )
        ]
    if disk.database and not disk.is_shared and disk.temporary < disk.database:
        return [
            warning(
                f"{disk.temporary / 1e6:,.0f} MB are free in {disk.temporary_folder}; to compact the database "
                f"{disk.database / 1e6:,.0f} MB are wanted there.",
                "Set TMPDIR to a folder on a larger disk where kbsync is started.",
            )
        ]
    return [fine(f"{free}; the database takes {disk.database / 1e6:,.0f} MB.")]


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in all and free, how many documents are to be read at once and how many will, and what each may take."""

    total: int
    free: int
    workers: int
    planned: int
    each: int


def look_at_memory(subject: Subject) -> list[Finding]:
    """Compare the memory with what the settings ask for."""
    from kbsync.machine import memory
    from kbsync.pipelines.isolation_plan import OWN_BYTES, PACKAGED_BYTES, plan_here

    settings = subject.settings
    has_own = settings.models.docling != "packaged"
    slots = plan_here(
        settings.workers,
        settings.models.device,
        own_models=has_own,
        threads=settings.resources.threads,
        memory_mb=settings.resources.memory_mb,
    )
    found, each = memory(), OWN_BYTES if has_own else PACKAGED_BYTES
    return judge_memory(
        Memory(min(found.total, found.limit), found.free, settings.workers, slots.count, each),
        is_running=subject.status is not None,
    )


def judge_memory(memory: Memory, *, is_running: bool) -> list[Finding]:
    """Say whether documents can be read, and how many at once."""
    one = DAEMON_BYTES + EMBEDDER_BYTES + memory.each
    shown = f"{memory.total / 1e9:.1f} GB of memory, {memory.free / 1e9:.1f} GB free"
    if memory.total < one:
        return [
            warning(
                f"{shown}: a large document may take more than there is, and is then told as failed (memory).",
                "Add memory, or raise the memory limit of the container.",
            )
        ]
    if not is_running and memory.free < one:
        return [
            warning(
                f"{shown}; kbsync takes up to {one / 1e9:.1f} GB while it reads a document.",
                "Close programs that take much memory.",
            )
        ]
    less = f" (workers = {memory.workers})" if memory.planned < memory.workers else ""
    return [fine(f"{shown}; up to {memory.planned} document{'' if memory.planned == 1 else 's'} at once{less}.")]
