"""With an endpoint configured a model writes and answers, from the files only; where it fails, extracts do."""

from __future__ import annotations

import gzip
import itertools
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kbsync.compose.project_tools import project_models
from kbsync.config.settings import load_settings
from kbsync.errors import ConfigurationError
from kbsync.projects import page, rebuilding
from kbsync.projects.asking import Conversation
from kbsync.projects.endpoint import Endpoint, EndpointFailed
from kbsync.projects.ingest import Tools, ingest
from kbsync.projects.writing import ModelAnswerer, ModelWriter
from tests.projects.desk import Desk, PlainConverter
from tests.projects.talking_server import Talk, talking

TEXT = "The deductible is 75 euros per person. Lost suitcases are covered up to 1,500 euros."
MESSAGES = [{"role": "user", "content": "?"}]


@pytest.fixture
def talk() -> Iterator[Talk]:
    with talking() as found:
        yield found


def endpoint(talk: Talk, timeout_s: float = 10.0, key: str | None = None) -> Endpoint:
    return Endpoint(talk.url, "small", key, timeout_s)


def taken_in(desk: Desk, talk: Talk) -> ModelWriter:
    writer = ModelWriter(endpoint(talk))
    desk.put("insurance.md", TEXT)
    ingest(desk.project, Tools(desk.clock, PlainConverter(), writer.summarize))
    return writer


def test_the_model_writes_the_summary_the_overview_and_the_key_information(desk: Desk, talk: Talk) -> None:
    talk.reply = lambda messages: f"<think>hm</think>## {messages[-1]['content'][:9]} |\nwritten"
    writer = taken_in(desk, talk)
    (row,) = page.rows(desk.page)
    assert row.summary == "### Say in th | written"
    rebuilding.rebuild(desk.project, desk.clock, writer.summarize, writer)
    assert page.section_text(desk.page, page.OVERVIEW) == "### Summarize |\nwritten"
    assert page.section_text(desk.page, page.KEY_POINTS) == "### List the  |\nwritten"
    assert [one["path"] for one in talk.asked] == ["/v1/chat/completions"] * 4
    assert all(one["model"] == "small" and "75 euros" in one["messages"][-1]["content"] for one in talk.asked)
    assert writer.problem is None


def test_the_model_answers_from_the_passages_with_their_source_and_hears_the_conversation(
    desk: Desk, talk: Talk
) -> None:
    taken_in(desk, talk)
    talk.asked.clear()
    talk.reply = lambda _messages: 'According to "insurance" (parsed/insurance.md), it is 75 euros.'
    conversation = Conversation(desk.project, ModelAnswerer(endpoint(talk)))
    answer = conversation.ask("How much is the deductible?")
    assert (answer.by, answer.answered, answer.files) == ("model", True, ("parsed/insurance.md",))
    assert "it is 75 euros" in answer.text
    conversation.ask("Are lost suitcases covered?")
    first, second = (one["messages"] for one in talk.asked)
    assert "PATH: parsed/insurance.md" in first[-1]["content"]
    assert "passages alone" in first[0]["content"]
    assert [message["content"] for message in second[1:3]] == ["How much is the deductible?", answer.text]


def test_paragraphs_of_the_model_that_name_no_file_are_left_out(desk: Desk, talk: Talk) -> None:
    taken_in(desk, talk)
    talk.reply = lambda _messages: 'According to "insurance" (parsed/insurance.md), 75 euros.\n\nThe moon is cheese.'
    answer = Conversation(desk.project, ModelAnswerer(endpoint(talk))).ask("How much is the deductible?")
    assert "75 euros" in answer.text
    assert "moon" not in answer.text
    assert "(…)" in answer.text


def test_an_endpoint_that_failed_is_left_alone_for_the_other_files(desk: Desk, talk: Talk) -> None:
    talk.raw = (500, b"", 0.0)
    for number in range(4):
        desk.put(f"file-{number}.md", TEXT)
    writer = ModelWriter(endpoint(talk))
    ingest(desk.project, Tools(desk.clock, PlainConverter(), writer.summarize))
    assert len(talk.asked) == 1
    assert all(row.summary.startswith("Extract: ") for row in page.rows(desk.page))


def test_what_the_files_do_not_hold_the_model_is_not_even_asked(desk: Desk, talk: Talk) -> None:
    taken_in(desk, talk)
    talk.asked.clear()
    answer = Conversation(desk.project, ModelAnswerer(endpoint(talk))).ask("Who won the world cup in 1998?")
    assert not answer.answered
    assert not talk.asked


def test_the_models_refusal_is_the_programs(desk: Desk, talk: Talk) -> None:
    taken_in(desk, talk)
    talk.reply = lambda _messages: "NO-ANSWER-IN-PASSAGES"
    answer = Conversation(desk.project, ModelAnswerer(endpoint(talk))).ask("What is the deductible of the suitcases?")
    assert not answer.answered
    assert answer.text == "The files of this project do not answer this."


def test_an_answer_without_a_source_is_not_shown_and_the_passages_are_quoted(desk: Desk, talk: Talk) -> None:
    taken_in(desk, talk)
    talk.reply = lambda _messages: "It is 80 euros, as everybody knows."
    answer = Conversation(desk.project, ModelAnswerer(endpoint(talk))).ask("How much is the deductible?")
    assert (answer.by, answer.answered) == ("extract", True)
    assert "80 euros" not in answer.text
    assert "named no source" in answer.notices[0]


def test_an_answer_that_cites_a_file_that_it_was_not_given_is_not_shown(desk: Desk, talk: Talk) -> None:
    taken_in(desk, talk)
    talk.reply = lambda _messages: (
        'According to "insurance" (parsed/insurance.md), it is 75 euros. According to "x" (parsed/other.md), it is 80.'
    )
    answer = Conversation(desk.project, ModelAnswerer(endpoint(talk))).ask("How much is the deductible?")
    assert answer.by == "extract"
    assert "other.md" not in answer.text
    assert "named a source that it was not given" in answer.notices[0]


@pytest.mark.parametrize("written", ["<think>hm", "  <think>hm</think>\n", "```\nx", "   ## 更新记录\n- x", "<!-- x"])
def test_what_a_model_writes_breaks_no_page(desk: Desk, talk: Talk, written: str) -> None:
    writer = taken_in(desk, talk)
    talk.reply = lambda _messages: written
    rebuilding.rebuild(desk.project, desk.clock, writer.summarize, writer)
    assert page.section_text(desk.page, page.OVERVIEW)
    assert [row.parsed for row in page.rows(desk.page)] == ["parsed/insurance.md"]
    assert page.rows(desk.page)[0].summary
    assert [entry.split(": ")[1] for entry in page.entries(desk.page)] == ["解析 insurance.md", "重建 project.md"]


@pytest.mark.parametrize("said", ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\n" + "X-A: b\r\n"])
def test_a_server_that_never_comes_to_its_answer_is_given_up(said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.settimeout(20)
                for character in itertools.cycle(said):
                    connection.send(character.encode())
                    time.sleep(0.002)

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://user:secret@127.0.0.1:{listening.getsockname()[1]}/v1"
        with pytest.raises(EndpointFailed, match=r"did not answer within 0\.5 s") as failed:
            Endpoint(url, "small", None, 0.5).chat(MESSAGES)
        thread.join(30)
        assert "secret" not in str(failed.value)
        assert not thread.is_alive()


def test_a_model_on_this_machine_is_not_asked_through_a_proxy(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert endpoint(talk).chat(MESSAGES) == "An answer."


def test_no_more_is_unpacked_than_an_answer_may_be(talk: Talk) -> None:
    talk.raw = (200, gzip.compress(bytes(100 << 20)), 0.0)
    talk.headers = {"Content-Encoding": "gzip"}
    tracemalloc.start()
    with pytest.raises(EndpointFailed):
        endpoint(talk).chat(MESSAGES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 << 20


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, b'{"error": "no such key"}', "401.*no such key"),
        (404, b"model not found", "404.*model not found"),
        (500, b"", "500"),
        (302, b"", "302"),
        (200, b"{}", "not of the OpenAI form"),
        (200, b"\xff\xfe", "not of the OpenAI form"),
        (200, b'{"choices": [{"message": {"content": null}}]}', "empty"),
        (200, b'{"choices": []}', "not of the OpenAI form"),
        (200, b" " * (5 << 20), "too large"),
    ],
)
def test_what_is_no_answer_is_told_and_goes_nowhere_else(talk: Talk, status: int, body: bytes, why: str) -> None:
    talk.raw = (status, body, 0.0)
    with pytest.raises(EndpointFailed, match=why):
        endpoint(talk).chat(MESSAGES)
    assert len(talk.asked) == 1


def test_an_answer_that_drips_for_longer_than_the_limit_is_given_up(talk: Talk) -> None:
    talk.raw = (200, b" " * 1000, 0.2)
    with pytest.raises(EndpointFailed, match="did not answer within"):
        endpoint(talk, timeout_s=0.5).chat(MESSAGES)


def test_a_server_that_is_not_there_costs_the_summary_only(desk: Desk) -> None:
    writer = ModelWriter(Endpoint("http://127.0.0.1:9/v1", "small", None, 5.0))
    desk.put("insurance.md", TEXT)
    outcome = ingest(desk.project, Tools(desk.clock, PlainConverter(), writer.summarize))
    assert len(outcome.taken) == 1
    assert page.rows(desk.page)[0].summary.startswith("Extract: ")
    assert "127.0.0.1:9" in (writer.problem or "")


def test_the_key_is_sent_from_its_file_and_shown_nowhere(
    tmp_path: Path, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("secret-key\n")
    config = tmp_path / "config.toml"
    config.write_text(f'[projects]\nendpoint = "{talk.url}/"\nmodel = "m"\nkey_file = "{tmp_path}/key"\n')
    models = project_models(load_settings(str(config)))
    assert models.answerer is not None
    assert models.writer is not None
    assert models.writer.summarize("Some words that are to be summarized here.", "a.md") == "An answer."
    assert talk.keys == ["Bearer secret-key"]
    talk.raw = (401, b"bad key", 0.0)
    models.writer.summarize("Some words that are to be summarized here.", "a.md")
    assert "secret" not in (models.writer.problem or "")


@pytest.mark.parametrize(
    "text",
    ['endpoint = "http://x/v1"', 'endpoint = "http://x/v1"\nmodel = "m"\nkey_file = "/absent"', 'endpoint = "ftp://x"']
    + [f'endpoint = "http://{host}/v1"\nmodel = "m"' for host in ("[x", "", "x:y")],
)
def test_a_configuration_that_cannot_work_is_told(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"[projects]\n{text}\n")
    with pytest.raises(ConfigurationError):
        project_models(load_settings(str(config)))


def test_without_an_endpoint_nothing_is_configured_to_be_sent(tmp_path: Path) -> None:
    models = project_models(load_settings(str(tmp_path / "absent.toml")))
    assert (models.writer, models.answerer) == (None, None)
