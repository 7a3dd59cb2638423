"""`search` without the daemon: by words, and it says what else stands in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbsync.interfaces.cli.app import app
from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World


@pytest.mark.parametrize("options", [(), ("--mode", "hybrid")])
def test_a_model_that_is_not_there_is_named_with_the_remedy(
    world: World, tmp_path: Path, options: tuple[str, ...]
) -> None:
    engine = SimulatedEngine(world)
    try:
        engine.fs.write(f"{NOTES}/quince.md", b"quince")
        engine.rescan()
    finally:
        engine.close()
    environment = {"KBSYNC_HOME": str(world.home), "KBSYNC_MODELS__EMBEDDER": str(tmp_path / "nowhere")}
    answer = CliRunner().invoke(app, ["search", "quince", "--json", *options], env=environment)
    assert answer.exit_code == 0, answer.output
    notice = json.loads(answer.stdout)["notice"]
    assert "found by words only" in notice
    assert notice.count(f"The embedding model in {tmp_path / 'nowhere'} cannot be used") == 1
    assert "models.embedder names it" in notice
