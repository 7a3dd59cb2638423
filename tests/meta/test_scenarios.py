"""Every scenario of a specification that is built has one test that carries its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import scenarios

# Those whose scenarios are all built.
COMPLETE = ("document-ingestion.md", "engine.md", "enrichment.md")


@pytest.mark.parametrize("name", COMPLETE)
def test_each_scenario_has_one_test_of_its_name(corpus: Path, name: str) -> None:
    specification = corpus.parent / scenarios.FOLDER / name
    if not specification.is_file():
        pytest.skip(f"{specification} is not there")
    found = scenarios.scenarios(specification, scenarios.named_tests())
    assert found, "a specification without scenarios"
    assert {scenario.name: scenario.tests for scenario in found if len(scenario.tests) != 1} == {}


def test_a_scenario_without_a_test_is_seen(tmp_path: Path) -> None:
    specification = tmp_path / "new.md"
    specification.write_text("#### Scenario: Auto-detect PDF file\n\n#### Scenario: Add a note (`--note`)\n")
    (tmp_path / "test_new.py").write_text("def test_add_a_note_note():\n    pass\n")
    first, second = scenarios.scenarios(specification, scenarios.named_tests(tmp_path))
    assert (first.name, first.tests) == ("Auto-detect PDF file", ())
    assert second.tests == (f"{tmp_path.name}/test_new.py::test_add_a_note_note",)
