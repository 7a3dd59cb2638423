"""The sample folder shows what it is there for: a question finds a note that has none of its words."""

from __future__ import annotations

import re

from kbsync.file_types import type_of
from tests.meta.checkout import ROOT

SAMPLE = ROOT / "packaging" / "sample"
# Words of the question that carry no meaning; every text has some of them.
FILLING = {"how", "do", "i", "my", "for", "a"}


def question() -> set[str]:
    script = (ROOT / "packaging" / "quickstart.sh").read_text(encoding="utf-8")
    match = re.search(r"^ +words='([^']+)'", script, re.MULTILINE)
    assert match
    return set(match[1].split()) - FILLING


def test_no_sample_file_has_a_word_of_the_question() -> None:
    assert {"money", "cancelled", "trip"} <= question()
    stems = [word.removesuffix("led") for word in question()]
    for path in SAMPLE.iterdir():
        text = path.read_text(encoding="utf-8").lower()
        assert not [stem for stem in stems if re.search(rf"\b{stem}", text)]


def test_every_sample_file_can_be_indexed_and_several_types_are_there() -> None:
    types = {type_of(path.name) for path in SAMPLE.iterdir()}
    assert None not in types
    assert {"markdown", "code", "csv"} <= types
