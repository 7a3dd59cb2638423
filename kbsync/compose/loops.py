"""Builds the loops of a daemon around an open engine."""

from __future__ import annotations

from collections.abc import Callable

from kbsync import log
from kbsync.compose.engine import Engine
from kbsync.compose.project_tools import daemon_tools
from kbsync.compose.seams import Seams
from kbsync.config.sections import ResourceSettings
from kbsync.config.settings import load_settings
from kbsync.daemon.daemon import Daemon, Loops
from kbsync.daemon.duties import Duties
from kbsync.daemon.intake import Intake
from kbsync.daemon.log_rotation import Logs
from kbsync.daemon.producer import Producer
from kbsync.daemon.reindexer import Reindexer
from kbsync.daemon.rescans import Rescans
from kbsync.daemon.rest import manners_of
from kbsync.daemon.scrub import Scrub
from kbsync.daemon.source_walk import SourceWalks
from kbsync.daemon.watchers import Watchers
from kbsync.knowledge_base.retrying import Retrying
from kbsync.model import Priority
from kbsync.sources.debounce import Debounce


def build_daemon(engine: Engine, *, rests: bool = True) -> Daemon:
    """Build the loops around an engine: `workers` for text, one more for fresh changes, and one for each child.

    Without `rests` it works through pauses, quiet hours and on the battery: somebody waits for it.
    """
    seams, settings, rest = engine.seams, engine.settings, engine.rest
    if not rests:
        rest.waive()

    # The loops know each other only by these: changes that must settle, sources that must be walked, what walks saw.
    rescans: Rescans
    watchers: Watchers
    producer = Producer(
        seams.fs,
        seams.clock,
        engine.writer,
        engine.readers,
        engine.sources,
        Debounce(settings.quiet_s, longest_wait_s=settings.longest_wait_s),
        engine.own,
        lambda source_id, why: rescans.mark(source_id, why),
        engine.work,
        engine.stop,
    )
    walks = SourceWalks(
        seams.fs,
        seams.clock,
        engine.writer,
        engine.readers,
        engine.sources,
        engine.own,
        producer.take,
        engine.work,
        engine.stop,
        lambda source_id, folders: watchers.walked(source_id, folders),
        lambda source_id: watchers.is_polled(source_id),
        settings.max_missing_share,
        settings.longest_wait_s,
    )
    rescans = Rescans(seams.clock, engine.sources, walks, engine.work, engine.stop)
    watchers = Watchers(seams.make_watcher, seams.clock, producer.take, rescans.mark, seams.mounts)

    engine.source_control.tell(lambda source_id: rescans.mark(source_id, "told"))

    def gone(source_id: int) -> None:
        rescans.mark(source_id, "gone")

    workers = [engine.worker(gone, "text", Priority.LOW, number) for number in range(settings.workers)]
    workers += [engine.worker(gone, "document", Priority.LOW, number) for number in range(engine.slots.count)]
    workers.append(engine.worker(gone, "text", Priority.EVENT))
    places = engine.locations
    own_logs = {places.log_file: log.rotate, places.error_log: engine.error_log.rotate}
    duties = Duties(
        engine.kb,
        engine.reindexing,
        Retrying(seams.fs, seams.clock, engine.writer, engine.readers),
        Logs(own_logs, (places.service_log,)),
        engine.work,
        settings.keep_days,
    )
    loops = Loops(
        engine.writer,
        engine.batcher,
        engine.embedders,
        engine.cage,
        tuple(workers),
        producer,
        rescans,
        watchers,
        Reindexer(engine.reindexing, engine.work, engine.stop, rest.defers),
        Scrub(seams.fs, seams.clock, engine.writer, engine.readers, engine.sources, engine.stop, rest.defers),
        duties,
        Intake(
            seams.clock,
            daemon_tools(engine),
            seams.make_watcher,
            seams.mounts,
            settings.quiet_s,
            rest.holds,
            engine.stop,
        ),
        engine.outage,
        rest,
        engine.work,
        engine.stop,
    )

    def follow_resources(resources: ResourceSettings) -> None:
        seams.conduct.follow(resources.of_daemon, resources.of_children)
        rest.follow(manners_of(resources))

    config_file = engine.locations.config_file
    return Daemon(
        loops,
        engine.kb,
        engine.sources,
        seams.clock,
        config_file,
        settings,
        lambda: load_settings(config_file),
        _model_changed(seams),
        follow_resources,
        engine.let_models_rest,
    )


def _model_changed(seams: Seams) -> Callable[[], bool]:
    """Return what says whether the model is another one, or was gone and is back. Asked while it cannot be used."""
    was_gone = False

    def changed() -> bool:
        nonlocal was_gone
        found = seams.find_model()
        if found is None:
            was_gone = True
            return False
        return was_gone or found.fingerprint != seams.model.fingerprint

    return changed
