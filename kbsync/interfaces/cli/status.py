"""`kbsync status`: how everything is doing. Without the daemon it says what the database knows and exits 4."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from kbsync.config.locations import Locations
from kbsync.interfaces.cli.client import running
from kbsync.interfaces.cli.exits import UNREACHABLE, complain, errors_told
from kbsync.interfaces.cli.output import Record, line, print_json, size, table
from kbsync.interfaces.cli.session import locations


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say how the daemon, the folders and the queue are doing."""
    with errors_told():
        places = locations()
        client = running(places)
        answer = client.get("status") if client is not None else _from_database(places)
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    if client is None:
        if not as_json:
            complain("The daemon is not running. Start it with `kbsync run`.")
        raise typer.Exit(UNREACHABLE)


def _from_database(places: Locations) -> Record:
    from kbsync.version import version

    answer: Record = {"version": version(), "running": False, "database": None, "queue": None, "sources": []}
    if not os.path.exists(places.database):
        return answer
    from kbsync.interfaces.records import source_record
    from kbsync.knowledge_base.statistics import statistics
    from kbsync.store import files, migrations, sources
    from kbsync.store.connection import Connection
    from kbsync.store.writer import Readers

    def read(connection: Connection) -> Record:
        migrations.require_current(connection)
        counts = files.counts(connection)
        found = [source_record(row, counts.get(row.id, {})) for row in sources.listed(connection)]
        return {**statistics(connection), "sources": found}

    readers = Readers(places.database)
    try:
        return {**answer, **readers.read(read)}
    finally:
        readers.close()


def _print(answer: Record) -> None:
    line(f"kbsync {answer['version']}")
    if answer.get("model_name"):
        device = answer["device"]
        ready = "ready" if answer.get("model_ready") else "loading"
        line(f"model      {answer['model_name']} ({answer['embedding_dim']} dimensions, {ready}, {device['kind']})")
    database, queue = answer["database"], answer["queue"]
    if database is not None:
        kinds = ", ".join(f"{count} {kind}" for kind, count in database["documents_by_type"].items()) or "none"
        line(f"documents  {kinds}; {database['total_chunks']} chunks; {size(database['size_bytes'])}")
        line(f"queue      {queue['queued']} queued, {queue['processing']} being read")
    for address in answer.get("endpoints", []):
        line(f"endpoint   {address}")
    if answer["sources"]:
        line()
        heads = ("SOURCE", "STATE", "INDEXED", "WAITING", "SKIPPED", "FAILED")
        table(
            [
                (source["path"], source["state"], *(source["files"][head.lower()] for head in heads[2:]))
                for source in answer["sources"]
            ],
            heads,
        )
    for notice in answer.get("notices", []):
        line(f"! {notice}")
