"""Every fault of the groups that are built has a test that carries its id."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import rows

# W: watcher and events; F: states of files; P: process and machine; D: database; S: service managers. With the number
# of faults that the page has of each.
COMPLETE = {"W": 22, "F": 35, "P": 20, "D": 20, "S": 8}


@pytest.mark.parametrize(("group", "count"), COMPLETE.items())
def test_each_fault_has_a_test_that_carries_its_id(corpus: Path, group: str, count: int) -> None:
    if not rows.page().is_file():
        pytest.skip(f"{corpus.parent / rows.PAGE} is not there")
    found = rows.rows([group])
    assert len(found) >= count, "the page's rows are read"
    assert [row.id for row in found if not row.tests] == []


def test_ids_are_read_from_the_start_of_docstrings_only(tmp_path: Path) -> None:
    (tmp_path / "test_whole.py").write_text(
        '"""F22: the whole file."""\n\ndef test_a():\n    """See F23: not this."""\n'
    )
    (tmp_path / "test_one.py").write_text(
        'def test_b():\n    """W05, W06 and F01: three."""\n\ndef test_c():\n    pass\n'
    )
    assert rows.carriers(tmp_path) == {
        "F01": [f"{tmp_path.name}/test_one.py::test_b"],
        "F22": [f"{tmp_path.name}/test_whole.py"],
        "W05": [f"{tmp_path.name}/test_one.py::test_b"],
        "W06": [f"{tmp_path.name}/test_one.py::test_b"],
    }
