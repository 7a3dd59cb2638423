"""A search finds what was meant, in every mode, page by page, and says what it did."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbsync.errors import FailFile
from kbsync.model import Filter, FilterField, Priority, SearchMode
from kbsync.reasons import Reason
from tests.search.conftest import MODES, Library
from tests.search.test_query import HOSTILE
from tests.store.made_documents import EMBEDDER

ALL_MODES = pytest.mark.parametrize("mode", MODES)


@ALL_MODES
def test_pages_one_after_another_are_the_one_long_list(library: Library, mode: SearchMode) -> None:
    for number in range(450):
        words = f"apples {'apples ' * (number % 7)}{'pears' if number % 3 else 'plums'} {number}"
        library.add(f"/notes/{number}.md", words, title=f"T{number}")
    whole = library.search("apples pears", mode, limit=1000)
    assert len(whole) == 450
    assert [hit.rank for hit in whole] == list(range(1, 451))
    for size in (7, 150):
        pages = [
            hit
            for start in range(0, 460, size)
            for hit in library.search("apples pears", mode, limit=size, offset=start)
        ]
        assert [(hit.rank, hit.document_id) for hit in pages] == [(hit.rank, hit.document_id) for hit in whole]
    assert library.search("apples", mode, offset=1_000_000) == []


@ALL_MODES
def test_a_filter_holds_before_anything_ranks(library: Library, mode: SearchMode) -> None:
    for number in range(300):
        library.add(f"/notes/{number}.md", "apples apples apples", title=f"T{number}")
    library.add(
        "/notes/z.pdf", "a long report in which apples are hardly mentioned at all", title="Report", document_type="pdf"
    )
    assert library.found("apples", mode, Filter("type", ("pdf",))) == ["Report"]


@pytest.fixture
def shelf(library: Library) -> Library:
    library.add("/shelf/letters/one.md", "quince jam", title="Letter to Anna")
    library.add("/shelf/letters-old/two.pdf", "quince jelly", title="Old letter", document_type="pdf", page=3)
    library.add("/attic/Letters/three.py", "quince = 1", title="quince tools", document_type="code", language="python")
    library.add("/attic/four.md", "quince tree", title="Garden > plans", section="Trees > Pruning", now=5_000.0)
    library.add("/shelf/lettersmith", "quince", title="Smith")
    return library


@ALL_MODES
@pytest.mark.parametrize(
    ("field", "values", "excluded", "expected"),
    [
        ("type", ("pdf",), False, {"Old letter"}),
        ("type", ("pdf", "code"), False, {"Old letter", "quince tools"}),
        ("type", ("pdf", "code"), True, {"Letter to Anna", "Garden > plans", "Smith"}),
        ("type", ("unheard-of",), False, set()),
        ("type", (), False, set()),
        ("language", ("Python",), False, {"quince tools"}),
        ("language", ("python",), True, {"Letter to Anna", "Old letter", "Garden > plans", "Smith"}),
        ("place", ("/shelf/letters",), False, {"Letter to Anna"}),
        ("place", ("/shelf/letters/",), False, {"Letter to Anna"}),
        ("place", ("/shelf/letters/one.md",), False, {"Letter to Anna"}),
        ("place", ("/shelf",), False, {"Letter to Anna", "Old letter", "Smith"}),
        ("place", ("/",), False, {"Letter to Anna", "Old letter", "quince tools", "Garden > plans", "Smith"}),
        ("place", ("/wor",), False, set()),
        ("place", ("letters",), False, {"Letter to Anna", "quince tools"}),
        ("place", ("shelf/letters/",), False, {"Letter to Anna"}),
        ("place", ("letters", "/attic/four.md"), False, {"Letter to Anna", "quince tools", "Garden > plans"}),
        ("place", ("letters",), True, {"Old letter", "Garden > plans", "Smith"}),
        ("place", ("",), False, set()),
        ("title", ("letter",), False, {"Letter to Anna", "Old letter"}),
        ("title", ("letters",), False, {"Letter to Anna", "Old letter"}),
        ("title", ("to Anna",), False, {"Letter to Anna"}),
        ("title", ("Anna to",), False, set()),
        ("title", ("let*",), False, {"Letter to Anna", "Old letter"}),
        ("title", ("jam",), False, set()),
        ("title", ("quince",), True, {"Letter to Anna", "Old letter", "Garden > plans", "Smith"}),
        ("title", ("…",), False, set()),
        ("section", ("pruning",), False, {"Garden > plans"}),
        ("section", ("tree",), False, {"Garden > plans"}),
        ("section", ("plans",), False, set()),
        ("source", ("/nowhere",), False, set()),
        ("since", (4_000.0,), False, {"Garden > plans"}),
        ("before", (4_000.0,), False, {"Letter to Anna", "Old letter", "quince tools", "Smith"}),
        ("before", (1_000.0,), False, set()),
    ],
)
def test_a_search_narrows_to(
    shelf: Library,
    mode: SearchMode,
    field: FilterField,
    values: tuple[str | float, ...],
    excluded: bool,
    expected: set[str],
) -> None:
    assert set(shelf.found("quince", mode, Filter(field, values, excluded))) == expected


@ALL_MODES
def test_several_filters_must_all_hold(shelf: Library, mode: SearchMode) -> None:
    assert shelf.found("quince", mode, Filter("place", ("/shelf",)), Filter("title", ("letter",), True)) == ["Smith"]


@ALL_MODES
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("quince type:pdf", {"Old letter"}),
        ("quince type:PY", {"quince tools"}),
        ("quince type:pdf,code", {"Old letter", "quince tools"}),
        ("quince -type:pdf -type:code", {"Letter to Anna", "Garden > plans", "Smith"}),
        ("quince in:letters", {"Letter to Anna", "quince tools"}),
        ("in:/shelf/letters quince", {"Letter to Anna"}),
        ("quince -in:/shelf", {"quince tools", "Garden > plans"}),
        ('quince title:"letter to"', {"Letter to Anna"}),
        ("quince title:letter -title:old", {"Letter to Anna"}),
        ('"quince jelly" plum', {"Old letter"}),
        ("quince -jam -tree", {"Old letter", "quince tools", "Smith"}),
        ('quince -"quince jam" in:shelf', {"Smith", "Old letter"}),
    ],
)
def test_what_a_query_says_holds_for_words_and_meaning(
    shelf: Library, mode: SearchMode, query: str, expected: set[str]
) -> None:
    assert set(shelf.found(query, mode)) == expected


def test_filters_alone_list_what_changed_last_first(shelf: Library) -> None:
    assert shelf.found("type:markdown")[0] == "Garden > plans"
    assert set(shelf.found("type:markdown")) == {"Garden > plans", "Letter to Anna", "Smith"}
    assert shelf.found("") == []
    assert shelf.found("-quince") == []


def test_a_type_that_there_is_not_matches_nothing_and_is_told(shelf: Library) -> None:
    result = shelf.searcher.search("quince type:spreadsheet", "lexical", 10)
    assert result.hits == ()
    assert "'spreadsheet'" in str(result.notice)


def test_a_document_is_found_by_the_name_of_its_file_and_folder(library: Library) -> None:
    library.add("/attic/invoices/acme-4711.pdf", "please pay soon", title="Untitled scan")
    for words in ("4711", "acme", "invoices", "acme-4711.pdf", "in:invoices pay"):
        assert library.found(words, "lexical") == ["Untitled scan"]


def test_a_matching_name_shows_no_text_with_a_word_that_must_not_be_there(library: Library) -> None:
    library.add("/attic/fox.md", "about a dog", title="Dogs")
    library.add("/attic/other.md", "the fox", title="Foxes")
    assert library.found("fox -dog") == ["Foxes"]


def test_hits_of_one_document_are_folded_into_its_best_passage_with_page_and_section(library: Library) -> None:
    library.add("/a.pdf", "about pears", "apples apples apples", "apples and pears", title="A", section="Fruit", page=7)
    library.add("/b.pdf", "apples once in a much longer text about other things", title="B")
    first, second = library.search("apples", "lexical")
    assert (first.title, first.text, first.section_header, first.page) == ("A", "apples apples apples", "Fruit", 7)
    assert (second.title, second.page, second.section_header) == ("B", None, None)


@ALL_MODES
def test_superseded_and_missing_versions_are_hidden_unless_asked_for(library: Library, mode: SearchMode) -> None:
    library.add("/notes/a.md", "apples then", title="Before")
    library.add("/notes/a.md", "apples now", title="After", now=2_000.0)
    library.add("/notes/b.md", "apples gone", title="Gone")
    library.lose("/notes/b.md")
    assert library.found("apples", mode) == ["After"]
    shown = library.search("apples", mode, every_version=True)
    assert {(hit.title, hit.state, hit.path, hit.paths) for hit in shown} == {
        ("Before", "superseded", "/notes/a.md", ()),
        ("After", "current", "/notes/a.md", ("/notes/a.md",)),
        ("Gone", "missing", "/notes/b.md", ()),
    }
    assert library.found("apples in:/notes/b.md", mode) == []
    assert library.found("apples in:/notes/b.md", mode, every_version=True) == ["Gone"]


def test_versions_added_by_hand_from_one_path_show_the_newest_that_was_found(library: Library) -> None:
    library.add("/in/a.md", "apples apples apples", title="First", kind="added", now=1_000.0)
    library.add("/in/a.md", "apples", title="Second", kind="added", now=2_000.0)
    library.add("/in/b.md", "apples pears", title="Other", kind="added", now=1_000.0)
    assert sorted(library.found("apples", "lexical")) == ["Other", "Second"]
    assert sorted(library.found("apples", "lexical", every_version=True)) == ["First", "Other", "Second"]


def test_an_older_version_that_another_path_still_holds_stays(library: Library) -> None:
    library.add("/in/a.md", "apples apples", title="First", kind="added", now=1_000.0)
    library.add("/in/a.md", "apples", title="Second", kind="added", now=2_000.0)
    library.add("/in/a.md", "apples apples", title="First", kind="path", now=1_000.0)
    assert sorted(library.found("apples", "lexical")) == ["First", "Second"]


@pytest.mark.parametrize("query", ["锁", "依赖", "注入", "模", "依赖注入是什么"])
def test_chinese_is_found_down_to_one_character(library: Library, query: str) -> None:
    library.add("/a.md", "依赖注入是一种设计模式，不是锁", title="笔记")
    library.add("/b.md", "nothing of the kind", title="Other")
    (hit,) = library.search(query, "lexical")
    assert hit.title == "笔记"
    assert "**" in hit.snippet


@given(HOSTILE, st.sampled_from(MODES), st.booleans(), st.lists(st.sampled_from(["title:", "in:", "-type:", "type:"])))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_search_for_any_characters_never_errors(
    shelf: Library, text: str, mode: SearchMode, every_version: bool, fields: list[str]
) -> None:
    query = text + "".join(f" {field}{text}" for field in fields)
    shelf.search(query, mode, every_version=every_version)
    shelf.search(query, mode, Filter("title", (text,)), Filter("place", (text,)), Filter("section", (text,)))


def test_until_the_model_is_loaded_words_alone_answer_and_say_so(shelf: Library) -> None:
    shelf.model_ready = False
    result = shelf.searcher.search("quince", "hybrid", 10)
    assert result.mode == "lexical"
    assert "not loaded yet" in str(result.notice)
    assert len(result.hits) == 5
    shelf.model_problem = "The folder of the model is gone. Bring it back."
    result = shelf.searcher.search("quince", "hybrid", 10)
    assert result.notice == f"The model cannot be used: found by words only. {shelf.model_problem}"


class Shortest:
    """A reranker that prefers short texts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        self.asked.append((query, len(texts)))
        return [1 / (1 + len(text)) for text in texts]


class Broken:
    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        raise FailFile(Reason.MODEL, "It is broken.")


def test_a_reranker_orders_the_best_anew_and_leaves_the_rest_behind_them(library: Library) -> None:
    for number in range(40):
        library.add(f"/notes/{number}.md", "apples " * (number + 1), title=f"T{number:02}")
    reranker = Shortest()
    search = library.searching(reranker)
    plain = [hit.title for hit in library.search("apples", limit=40)]
    hits = search.search("apples", "hybrid", 40).hits
    ordered = [hit.title for hit in hits]
    assert ordered[:30] == sorted(plain[:30])
    assert ordered[30:] == plain[30:]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert reranker.asked == [("apples", 30)]
    page = search.search("apples", "hybrid", 10, 25).hits
    assert [(hit.rank, hit.title) for hit in page] == [(26 + i, title) for i, title in enumerate(ordered[25:35])]


@pytest.mark.parametrize("mode", ["lexical", "vector"])
def test_an_arm_alone_is_not_reranked(shelf: Library, mode: SearchMode) -> None:
    reranker = Shortest()
    shelf.searching(reranker).search("quince", mode, 10)
    assert reranker.asked == []


def test_a_reranker_that_fails_costs_nothing_but_its_order(shelf: Library) -> None:
    result = shelf.searching(Broken()).search("quince", "hybrid", 10)
    assert [hit.title for hit in result.hits] == shelf.found("quince")
    assert "It is broken." in str(result.notice)


def test_the_query_is_embedded_without_its_filters(shelf: Library) -> None:
    EMBEDDER.embedded.clear()
    shelf.search("quince title:letter -jam in:shelf type:pdf")
    assert EMBEDDER.embedded == ["quince"]
    assert Priority.QUERY < Priority.SCAN
