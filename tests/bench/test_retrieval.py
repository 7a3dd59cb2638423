"""The retrieval and the search bench count right, and run on tiny sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbsync.model import Priority
from tests.bench import searching
from tests.bench.judged import Collection, Text, described_functions, in_other_words, judged
from tests.bench.retrieval import RememberingEmbedder, quality, report, reported
from tests.fakes.hash_embedder import HashEmbedder
from tests.fakes.word_counter import WordCounter


def test_quality_is_what_the_definitions_say() -> None:
    relevant = {"one": frozenset({"a"}), "two": frozenset({"a", "b"}), "three": frozenset({"c"})}
    rankings = {"one": ["x", "a"], "two": ["a", "b"], "three": [*"0123456789", "c"]}
    found = quality(rankings, relevant)
    assert found.ndcg == pytest.approx((0.6309298 + 1 + 0) / 3)
    assert found.recall == pytest.approx((1 + 1 + 0) / 3)
    assert found.mrr == pytest.approx((0.5 + 1 + 0) / 3)


def test_a_collection_is_read_with_those_questions_that_are_judged(tmp_path: Path) -> None:
    texts = [{"_id": "d1", "title": "Apples", "text": "red"}, {"_id": "d2", "title": "Pears", "text": "green"}]
    asked = [{"_id": "q1", "text": "what is red"}, {"_id": "q2", "text": "nobody knows"}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n", encoding="utf-8")
    collection = judged(str(tmp_path))
    assert collection.texts == (Text("d1", "Apples", "red"), Text("d2", "Pears", "green"))
    assert collection.questions == {"q1": "what is red"}
    assert collection.relevant == {"q1": frozenset({"d1"})}


def test_functions_are_asked_for_by_words_that_are_not_in_them() -> None:
    functions = described_functions()
    texts = {text.id: text.text for text in functions.texts}
    assert len(functions.questions) > 100
    assert all(said not in texts[answer] for answer, said in functions.questions.items())
    harder = in_other_words(functions)
    assert 0 < len(harder.questions) < len(functions.questions)
    assert harder.texts is functions.texts


def test_the_halves_are_fixed_and_about_equal() -> None:
    halves = [reported(f"question {number}") for number in range(1000)]
    assert 400 < sum(halves) < 600
    assert [reported(str(number)) for number in range(6)] == [True, True, True, True, False, False]


def test_the_table_has_a_line_for_each_arm_and_tells_whether_hybrid_holds(capsys: pytest.CaptureFixture[str]) -> None:
    texts = tuple(Text(f"d{number}", f"Title {number}", f"apples and word{number}") for number in range(30))
    questions = {f"q{number}": f"word{number}" for number in range(30)}
    relevant = {f"q{number}": frozenset({f"d{number}"}) for number in range(30)}
    collection = Collection("words", texts, questions, relevant)
    assert report([collection], HashEmbedder(), WordCounter(), None) == 0
    printed = capsys.readouterr().out
    assert [row.split()[1].rstrip(",") for row in printed.splitlines()[1:5]] == [
        "lexical",
        "vector",
        "hybrid",
        "hybrid",
    ]
    assert "1.000" in printed
    assert "everywhere" in printed


def test_what_was_embedded_once_is_kept_for_the_next_run(tmp_path: Path) -> None:
    path, first, second = str(tmp_path / "vectors"), HashEmbedder(), HashEmbedder()
    remembering = RememberingEmbedder(first, path)
    rows = remembering.embed(["a", "b", "a"], Priority.SCAN)
    remembering.save()
    again = RememberingEmbedder(second, path).embed(["b", "a"], Priority.SCAN)
    assert again.tolist() == rows[[1, 0]].tolist()
    assert first.embedded == ["a", "b"]
    assert second.embedded == []


def test_the_search_bench_measures_every_mode_idle_and_beside_ingestion() -> None:
    figures = {figure.name: figure for figure in searching.measure(500, 30, 5, HashEmbedder())}
    for name in ("lexical", "vector", "hybrid", "hybrid, 2 % by type", "hybrid, half by folder"):
        assert len(figures[f"search: {name}"].values) == 5
        assert len(figures[f"search beside ingestion: {name}"].values) == 5
    assert figures["search beside ingestion: commits"].median > 0
