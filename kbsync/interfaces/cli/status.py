"""`kbsync status`: how everything is doing. Without the daemon it says what the database knows and exits 4."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.config.locations import Locations
from kbsync.daemon.lock import Owner, owner_of
from kbsync.errors import ConfigurationError
from kbsync.interfaces.cli.client import running, starting
from kbsync.interfaces.cli.exits import UNREACHABLE, complain, errors_told
from kbsync.interfaces.cli.output import Record, counted, line, local, print_json, size, table
from kbsync.interfaces.cli.reindex import said
from kbsync.interfaces.cli.session import locations
from kbsync.reasons import Reason

if TYPE_CHECKING:
    from kbsync.daemon.due import Run
    from kbsync.store.reindexes import VectorTable

# Every other reason that is counted is one of failing.
_OF_INDEXED = {Reason.NO_TEXT, Reason.TRUNCATED}
_OF_SKIPPED = {
    Reason.UNSUPPORTED,
    Reason.IGNORED,
    Reason.TOO_LARGE,
    Reason.EMPTY,
    Reason.BINARY,
    Reason.SYMLINK,
    Reason.SPECIAL,
    Reason.SECRET,
    Reason.CLOUD_ONLY,
    Reason.REMOVED_BY_YOU,
}


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say how the daemon, the folders and the queue are doing."""
    with errors_told():
        places = locations()
        owner = starting(places)
        if owner is not None:
            answer, missing = _of_start(owner), f"The daemon (process {owner.pid}) is starting."
        elif (client := running(places)) is not None:
            answer, missing = {"state": "running", **client.status()}, None
        else:
            answer, missing = _from_database(places), "The daemon is not running. Start it with `kbsync run`."
            answer["notices"] = [*_of_early_ends(places), *answer["notices"]]
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    if missing is not None:
        if not as_json:
            complain(missing)
        raise typer.Exit(UNREACHABLE)


def _of_early_ends(places: Locations) -> list[str]:
    """Say that a service manager starts it again and again, and that it waits in between."""
    from kbsync.interfaces.service import early_ends

    count = early_ends.read(places.early_ends_file).count
    if count < 2:
        return []
    return [f"The last {count} starts of the service soon ended; `kbsync service logs` tells why."]


def _unknown(state: str) -> Record:
    """Return what is told where the database says nothing."""
    from kbsync.version import version

    return {
        "version": version(),
        "running": False,
        "state": state,
        "database": None,
        "queue": None,
        "rest": None,
        "schedule": [],
        "sources": [],
        "projects": [],
        "notices": [],
    }


def _of_start(owner: Owner) -> Record:
    """Return what a daemon that is starting says of itself. The database is its own just now."""
    return {**_unknown("starting"), "doing": owner.doing or "getting ready", "since": owner.since}


def _from_database(places: Locations) -> Record:
    from kbsync.store import damage

    answer = _unknown("stopped")
    if os.path.exists(places.restoring_dir):
        from kbsync.knowledge_base import exchange

        if exchange.is_pending(places):
            answer["notices"] = ["A restore was interrupted: `kbsync run`, or the next command, finishes it."]
            return answer
    if not os.path.exists(places.database):
        if damage.pending(places.database) is not None:
            answer["notices"] = ["The database was damaged, and is being built anew: `kbsync run` goes on with that."]
        return answer
    from kbsync.daemon import last_runs
    from kbsync.daemon.rest import resting_by_word, stored_pause
    from kbsync.interfaces import notices
    from kbsync.interfaces.records import rest_record, source_record
    from kbsync.knowledge_base import checkup, rebuilt
    from kbsync.knowledge_base.statistics import statistics
    from kbsync.store import files, jobs, ledger, migrations, reindexes, sources, waiting_jobs
    from kbsync.store.connection import Connection
    from kbsync.store.writer import Readers

    def read(connection: Connection) -> Record:
        migrations.require_current(connection)
        counts = files.counts(connection)
        rows = sources.listed(connection)
        found = [source_record(row, counts.get(row.id, {}), running=False) for row in rows]
        failures, folders = ledger.failures(connection), {row.id: row.path for row in rows}
        set_aside, unread = rebuilt.notice(rebuilt.read(connection), places.data_dir), rebuilt.unread(connection)
        rest = rest_record(resting_by_word(stored_pause(connection), now := time.time()), now)
        told = [
            *([] if rest is None else [rest["detail"]]),
            *([] if set_aside is None else [set_aside]),
            *(notices.of_unread(unread, running=False) if unread.is_anew else []),
            *notices.of_check(checkup.last_problems(connection)),
            *notices.of_room(waiting_jobs.waiting_for(connection, Reason.NO_SPACE), places.data_dir),
            *notices.of_sources(found, time.time()),
            *notices.of_failures(failures, folders, lasting=False),
            *notices.of_failures(failures, folders, lasting=True),
        ]
        building, live = reindexes.building(connection), reindexes.live(connection)
        if building is not None and live is not None:
            told.append(
                f"The index is to be made anew for {building.model_name}; `kbsync run` goes on with it. Until then "
                f"search uses what {live.model_name} made."
            )
        elif another := _another_model(places, live):
            told.append(another)
        known = statistics(connection)
        if owner_of(places.lock_file) is None:  # nobody reads: what a killed process left waits for the next one
            known["queue"] = {"queued": sum(jobs.counts(connection).values()), "processing": 0}
        schedule = _schedule(places, last_runs.read(connection), [row.last_scan_at for row in rows])
        return {**known, "rest": rest, "schedule": schedule, "sources": found, "notices": told}

    readers = Readers(places.database)
    try:
        return {**answer, **readers.read(read)}
    finally:
        readers.close()


def _schedule(places: Locations, runs: Mapping[str, Run], walks: Sequence[float | None]) -> list[Record]:
    """Return the timetable of a daemon that does not run: when each job was done last.

    The folders were looked through when the one was whose look is the longest ago.
    """
    from kbsync.config.settings import load_settings
    from kbsync.daemon.due import Run
    from kbsync.interfaces.records import schedule_record

    try:
        times = load_settings(places.config_file).timetable()
    except ConfigurationError:
        return []  # that is told already
    known = [at for at in walks if at is not None]
    walked = Run(min(known)) if known and len(known) == len(walks) else None
    stopped = {"next": None, "state": "stopped", "detail": None}
    return [
        schedule_record({"name": name, "every": written, "last": run and run.at, **stopped})
        for name, (written, _when) in times.items()
        for run in (walked if name == "rescan" else runs.get(name),)
    ]


def _another_model(places: Locations, live: VectorTable | None) -> str | None:
    """Say that another model is configured than the one that made the live vectors; None where it is the same.

    A model that cannot be used is told as well.
    """
    from kbsync.compose import configured_model
    from kbsync.config.settings import load_settings

    try:
        model = configured_model(load_settings(places.config_file))
    except ConfigurationError as error:
        return str(error)
    if live is None or live.fingerprint == model.fingerprint:
        return None
    return (
        f"Another model is configured: `kbsync run` makes the index anew for {model.name}. Until then search uses what "
        f"{live.model_name} made."
    )


def _print(answer: Record) -> None:
    line(f"kbsync {answer['version']}")
    if answer["state"] == "starting":
        since = (
            "" if answer["since"] is None else f", since {time.strftime('%H:%M:%S', time.localtime(answer['since']))}"
        )
        line(f"starting   {answer['doing']}{since}")
    if answer.get("model_name"):
        device = answer["device"]
        ready = _model(answer)
        line(f"model      {answer['model_name']} ({answer['embedding_dim']} dimensions, {ready}, {device['kind']})")
    database, queue = answer["database"], answer["queue"]
    if database is not None:
        kinds = ", ".join(f"{count} {kind}" for kind, count in database["documents_by_type"].items()) or "none"
        line(f"documents  {kinds}; {counted(database['total_chunks'], 'chunk')}; {size(database['size_bytes'])}")
        line(f"files      {answer['files']['seen']} seen: {_files(answer['files'])}")
        if answer["added"]["seen"]:
            line(f"by hand    {answer['added']['seen']} added: {_added(answer['added'])}")
        if answer["taken_in"]:
            line(f"taken in   {counted(answer['taken_in'], 'file')} from inboxes")
        line(f"queue      {queue['queued']} queued, {queue['processing']} being read")
    if answer.get("slowed"):
        line("battery    a file at a time; what can wait waits")
    if answer.get("reindex") and answer["reindex"]["state"] != "idle":
        line(f"reindex    {said(answer['reindex'])}")
    if answer.get("conversion"):
        line(f"conversion {_conversion(answer['conversion'])}")
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
    for project in answer.get("projects", []):
        line(f"project    {project['path']}: {project['problem'] or _project(project)}")
    if answer.get("schedule"):
        line()
        table(
            [(job["name"], job["every"], *_moments(job), _how(job)) for job in answer["schedule"]],
            ("JOB", "EVERY", "LAST", "NEXT", "STATE"),
        )
    if answer.get("notices"):
        line()
    for notice in answer.get("notices", []):
        line(f"! {notice}")


def _project(project: Record) -> str:
    waiting = counted(len(project["waiting"]), "file waits", "files wait")
    return f"{waiting}, {len(project['refused'])} refused"


def _moments(job: Record) -> tuple[str, str]:
    """Return when a job of the timetable ran last and runs next, by the machine's own time."""
    last, at = ("-" if told is None else local(told) for told in (job["last"], job["next"]))
    return last, at


def _how(job: Record) -> str:
    return job["state"] if job["detail"] is None else f"{job['state']}: {job['detail']}"


def notice_line(notices: Sequence[str]) -> str:
    """Return all notices in a line: the first one, and how many more there are."""
    more = len(notices) - 1
    if more < 1:
        return notices[0]
    return f"{notices[0]} ({more} more notice{'' if more == 1 else 's'}: `kbsync status`)"


def _model(answer: Record) -> str:
    """Say whether a query is answered by meaning at once."""
    if answer.get("model_ready"):
        return "ready"
    if answer.get("model_error"):
        return "not usable"
    return "loading" if answer.get("model_state") == "loading" else "resting: loads when needed, about 10 s"


def _files(record: Record) -> str:
    """Say how many files are in each state, and for which reasons they are not, or not wholly, searchable."""
    states, reasons = record["states"], sorted(record["reasons"].items(), key=lambda item: -item[1])
    indexed = [f"{count} {reason}" for reason, count in reasons if reason in _OF_INDEXED]
    skipped = [f"{count} {reason}" for reason, count in reasons if reason in _OF_SKIPPED]
    failed = [f"{count} {reason}" for reason, count in reasons if reason not in _OF_INDEXED | _OF_SKIPPED]
    parts = [f"{states.get('indexed', 0)} indexed" + (f" ({', '.join(indexed)})" if indexed else "")]
    if states.get("waiting"):
        parts.append(f"{states['waiting']} waiting")
    for state, found in (("skipped", skipped), ("failed", failed)):
        parts.append(f"{states.get(state, 0)} {state}" + (f" ({', '.join(found)})" if found else ""))
    if states.get("gone"):
        parts.append(f"{states['gone']} gone")
    return ", ".join(parts)


def _added(record: Record) -> str:
    return ", ".join(
        f"{record[state]} {state}" for state in ("indexed", "waiting", "skipped", "failed") if record[state]
    )


def _conversion(record: Record) -> str:
    """Say in a line how many documents are read at once, and which are now."""
    started = [child for child in record["children"] if child["state"] != "none"]
    memory = sum(child["resident_bytes"] for child in started)
    parts = [f"up to {counted(record['slots'], 'document')} at once, {counted(record['threads'], 'thread')} each"]
    # One that has just been started, or has ended, has none that can be measured.
    taken = f", {size(memory)}" if memory else ""
    parts += [f"{counted(len(started), 'process', 'processes')}{taken}"] if started else ["no process"]
    parts += [f"reading {child['file']} for {child['seconds']:.0f} s" for child in started if child["file"]]
    return "; ".join(parts)
