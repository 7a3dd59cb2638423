"""What the ledger does not know is explained by a look: in a source, beside it, and refused by `add`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbsync.knowledge_base.explain import Explanation
from kbsync.knowledge_base.unseen import Looks
from kbsync.reasons import FileState, Reason
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World


def looks(engine: SimulatedEngine) -> Looks:
    return Looks(engine.fs, engine.engine.own, engine.kb.adding)


def unseen(engine: SimulatedEngine, path: str) -> Explanation | None:
    return looks(engine).unseen(engine.engine.sources.all(), path)


def test_a_new_file_of_a_source_is_taken_in_by_the_next_look(engine: SimulatedEngine) -> None:
    engine.fs.write(f"{NOTES}/new.md", b"quince")
    found = unseen(engine, f"{NOTES}/new.md")
    assert found is not None
    assert (found.state, found.reason, found.last_seen_at) == (FileState.WAITING, Reason.SETTLING, None)


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("/simulated/desk/tls.key", b"key", Reason.SECRET),
        ("/simulated/desk/empty.md", b"", Reason.EMPTY),
        ("/simulated/desk/odd.zip", b"?", Reason.UNSUPPORTED),
        (f"{NOTES}/.hidden.md", b"?", Reason.IGNORED),
        (f"{NOTES}/node_modules/deep.md", b"?", Reason.IGNORED),
    ],
)
def test_what_add_or_a_walk_would_leave_out_says_why(
    engine: SimulatedEngine, path: str, content: bytes, reason: Reason
) -> None:
    engine.fs.write(path, content)
    found = unseen(engine, path)
    assert found is not None
    assert (found.state, found.reason) == (FileState.SKIPPED, reason)
    assert path.startswith(NOTES) or "`kbsync add` cannot take it in" in found.detail


def test_what_add_would_take_in_and_what_is_not_there_has_no_explanation(engine: SimulatedEngine) -> None:
    engine.fs.write("/simulated/desk/quince.md", b"quince")
    for path in ("/simulated/desk/quince.md", "/simulated/desk", "/simulated/absent.md", f"{NOTES}/absent.md"):
        assert unseen(engine, path) is None


def test_a_file_that_no_pattern_of_include_takes_in_is_told_so(
    world: World, started: Callable[[], SimulatedEngine]
) -> None:
    world.configure(text=f'[[sources]]\npath = "{NOTES}"\ninclude = ["*.md"]\nignore = ["draft*"]\n')
    engine = started()
    engine.fs.write(f"{NOTES}/list.csv", b"a,b")
    engine.fs.write(f"{NOTES}/draft.csv", b"a,b")
    engine.rescan()
    sources = engine.engine.sources.all()
    exact = looks(engine).made_exact(sources, engine.why(f"{NOTES}/list.csv"))
    assert (exact.reason, exact.detail) == (Reason.IGNORED, "No pattern of `include` takes it in.")
    ignored = looks(engine).made_exact(sources, engine.why(f"{NOTES}/draft.csv"))
    assert "include" not in ignored.detail


def test_a_folder_inside_a_source_that_takes_none_is_told_so(
    world: World, started: Callable[[], SimulatedEngine]
) -> None:
    world.configure(text=f'[[sources]]\npath = "{NOTES}"\nrecursive = false\n')
    engine = started()
    engine.fs.write(f"{NOTES}/sub/quince.md", b"quince")
    found = unseen(engine, f"{NOTES}/sub/quince.md")
    assert found is not None
    assert (found.state, found.reason) == (FileState.SKIPPED, Reason.IGNORED)
    assert "recursive = false" in found.detail
