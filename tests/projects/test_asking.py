"""Decision 7: answers come from project.md, then the files that matter, then their sections, each with its source."""

from __future__ import annotations

import pytest

from kbsync.projects.asking import Conversation
from tests.projects.desk import Desk

_INSURANCE = """# Holiday cover

## Before departure

The policy reimburses flights and hotels. The deductible is 75 euros per person.

## Luggage

Lost suitcases are covered up to 1,500 euros.

## Claims

Call the hotline within 48 hours.
"""
_BREAD = "# Bread\n\nTake 500 g flour, 350 g water and 10 g salt. Bake at 250 degrees for twenty minutes.\n"
_MOVING = """# 搬家清单

## 提前一个月

联系房东，确认押金退还的时间和条件。

## 搬完以后

七天之内到派出所登记新地址。
"""
FILES = {
    "insurance.md": _INSURANCE,
    "sourdough.md": _BREAD,
    "plants.csv": "plant,room,water every (days)\nMonstera,living room,8\nBoston fern,bathroom,4\n",
    "搬家清单.md": _MOVING,
    "page.html": "<html><body><h1>Ducks</h1><p>Mallards nest near lakes in spring.</p></body></html>",
}


@pytest.fixture
def filled(desk: Desk) -> Desk:
    for name, content in FILES.items():
        desk.put(name, content)
    desk.ingest()
    return desk


@pytest.mark.parametrize(
    ("question", "said", "file"),
    [
        ("How much is the deductible per person?", "75 euros", "insurance"),
        ("What should I do within 48 hours?", "Call the hotline", "insurance"),
        ("Up to how much are lost suitcases covered?", "1,500 euros", "insurance"),
        ("How much salt goes into the bread?", "10 g salt", "sourdough"),
        ("How often does the fern need water?", "Boston fern,bathroom,4", "plants"),
        ("Where do mallards nest?", "near lakes", "page"),
    ],
)
def test_a_question_in_english_is_answered_with_the_passage_and_its_file(
    filled: Desk, question: str, said: str, file: str
) -> None:
    answer = Conversation(filled.project).ask(question)
    assert answer.answered
    assert answer.files[0] == f"parsed/{file}.md"
    first = answer.text.split("\n\n")[0]
    assert first.startswith(f'According to "{file}" (parsed/{file}.md), “')
    assert said in first


@pytest.mark.parametrize(
    ("question", "said"),
    [("押金什么时候退还？", "确认押金退还"), ("几天之内要登记新地址？", "七天之内到派出所登记新地址")],
)
def test_a_question_in_chinese_is_answered_in_the_form_of_the_specification(
    filled: Desk, question: str, said: str
) -> None:
    answer = Conversation(filled.project).ask(question)
    assert answer.text.startswith("根据《搬家清单》(parsed/搬家清单.md)，“")
    assert said in answer.text


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Who won the world cup in 1998?", "do not answer"),
        ("What is the capital of Mongolia?", "do not answer"),
        ("谁是法国总统？", "没有回答"),
        ("フランスの大統領は誰ですか", "答えがありません"),
        ("프랑스의 대통령은 누구입니까", "답이 없습니다"),
        ("???", "do not answer"),
    ],
)
def test_what_the_documents_do_not_answer_is_answered_so(filled: Desk, question: str, said: str) -> None:
    answer = Conversation(filled.project).ask(question)
    assert not answer.answered
    assert answer.files == ()
    assert said in answer.text


def test_a_section_whose_header_is_what_is_asked_for_comes_first(desk: Desk) -> None:
    used = "## JWT and passwords\n\nJWT JWT JWT everywhere, JWT.\n\n"
    desk.put("tokens.md", f"# Tokens\n\n{used}## About JWT\n\nJWT means JSON Web Tokens.\n")
    image = "## 什么是容器镜像\n\n容器镜像是容器的静态版本，容器由它运行。\n\n"
    desk.put("容器.md", f"# 部署\n\n{image}## 什么是容器\n\n它是打包应用的方式。\n")
    desk.ingest()
    assert "JWT means JSON Web Tokens" in desk.ask("What does JWT mean?").split("\n\n")[0]
    assert "打包应用的方式" in desk.ask("什么是容器？").split("\n\n")[0]


def test_every_statement_has_its_source(filled: Desk) -> None:
    answer = Conversation(filled.project).ask("euros person covered suitcases")
    assert answer.answered
    assert all("(parsed/" in statement for statement in answer.text.split("\n\n"))


def test_a_conversation_keeps_what_it_is_about(filled: Desk) -> None:
    conversation = Conversation(filled.project)
    assert conversation.ask("Are lost suitcases covered?").answered
    more = conversation.ask("And euros?")
    assert more.files[0] == "parsed/insurance.md"
    assert "1,500" in more.text
    assert "250 degrees" in conversation.ask("At how many degrees is it baked for twenty minutes?").text


def test_a_file_that_was_changed_meanwhile_is_read_as_it_is_now(filled: Desk) -> None:
    conversation = Conversation(filled.project)
    conversation.ask("How much salt goes into the bread?")
    filled.put("sourdough.md", "The bread takes 12 g salt since the last attempt was bland.")
    filled.ingest()
    assert "12 g salt" in conversation.ask("How much salt goes into the bread?").text


def test_an_empty_project_answers_nothing(desk: Desk) -> None:
    assert not Conversation(desk.project).ask("Is anything in here?").answered


@pytest.mark.parametrize(
    ("question", "said"),
    [("怎么退还租房押金？", "确认押金退还"), ("登记新地址是什么意思？", "派出所登记新地址")],
)
def test_pairs_of_characters_where_two_words_meet_do_not_count(filled: Desk, question: str, said: str) -> None:
    assert said in filled.ask(question)


def test_a_word_that_none_of_many_passages_holds_makes_an_answer_by_the_others_unlikely(filled: Desk) -> None:
    assert Conversation(filled.project).ask("Are lost suitcases stolen?").answered
    sections = "".join(f"# Section {number}\n\nThe words of section {number} are these.\n\n" for number in range(60))
    filled.put("many.md", sections)
    filled.ingest()
    assert Conversation(filled.project).ask("Are lost suitcases covered?").answered
    assert not Conversation(filled.project).ask("Are lost suitcases stolen?").answered


def test_code_is_quoted_where_it_is_what_a_passage_says(desk: Desk) -> None:
    desk.put(
        "setup.md", "# Setup\n\nCreate the random key with this command:\n\n```console\nopenssl rand -hex 32\n```\n"
    )
    desk.ingest()
    assert "openssl rand -hex 32" in desk.ask("How do I create the random key?")
