"""Every bad document of the fault list ends in a state that it may end in, within its limits, and harms nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.bad_documents import BAD_DOCUMENTS, BadDocument
from tests.faults.ground import Ground

pytestmark = pytest.mark.timeout(300)  # the first one loads Docling: half a minute when quiet


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with Ground(tmp_path_factory.mktemp("ground")) as ground:
        yield ground


@pytest.mark.parametrize(
    "document",
    [pytest.param(row, id=f"{row.id}-{row.name}") for row in BAD_DOCUMENTS if not row.slow],
)
def test_a_bad_document_ends_in_its_state_and_harms_nothing(ground: Ground, document: BadDocument) -> None:
    assert ground.read(document).wrong == ()


def test_every_row_of_the_fault_list_has_a_document() -> None:
    assert {row.id for row in BAD_DOCUMENTS} == {f"B{number:02}" for number in range(1, 38)}
    assert len({row.name for row in BAD_DOCUMENTS}) == len(BAD_DOCUMENTS)
