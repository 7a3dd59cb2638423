"""What retrieval is measured on: documents, questions, and which document answers which question."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kbsync.store import tokenizer
from tests.bench.library import library_files

# Functions of the standard library; every second of those with a usable first sentence is asked for.
_FUNCTIONS = 500
_ASKED_EVERY = 2
_LITTLE_WORDS = "a an and are as be by for from if in is it of on or the that this to with"  # of no function's own


@dataclass(frozen=True, slots=True)
class Text:
    """A document before it is indexed."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents with judged questions: `relevant[question id]` holds the ids of the documents that answer it."""

    name: str
    texts: tuple[Text, ...]
    questions: dict[str, str]
    relevant: dict[str, frozenset[str]]


def judged(folder: str) -> Collection:
    """Read a collection in the form of BEIR: corpus.jsonl, queries.jsonl and qrels.tsv."""
    texts = tuple(Text(row["_id"], row["title"], row["text"]) for row in _rows(os.path.join(folder, "corpus.jsonl")))
    questions = {row["_id"]: row["text"] for row in _rows(os.path.join(folder, "queries.jsonl"))}
    relevant: dict[str, set[str]] = {}
    with open(os.path.join(folder, "qrels.tsv"), encoding="utf-8") as file:
        next(file)
        for line in file:
            question, text, score = line.split()
            if float(score) > 0:
                relevant.setdefault(question, set()).add(text)
    asked = {question: said for question, said in questions.items() if question in relevant}
    return Collection(os.path.basename(folder), texts, asked, {key: frozenset(ids) for key, ids in relevant.items()})


def described_functions() -> Collection:
    """Return functions of the standard library without their docstrings, asked for by the docstring's first sentence.

    What a person says of a function and how it is written share few words: here the embedder leads.
    """
    found = [function for path in library_files(400) for function in _functions(path)]
    step = max(1, len(found) // _FUNCTIONS)
    texts, questions = [], {}
    seen: set[str] = set()
    for number, (name, sentence, source) in enumerate(found[::step]):
        if source in seen:
            continue
        seen.add(source)
        identity = f"f{number}"
        texts.append(Text(identity, name, source))
        if number % _ASKED_EVERY == 0 and len(sentence.split()) >= 4:
            questions[identity] = sentence
    return Collection("functions", tuple(texts), questions, {key: frozenset([key]) for key in questions})


def in_other_words(collection: Collection) -> Collection:
    """Return the collection with those questions only whose answers hold at most a third of their words."""
    texts = {text.id: f"{text.title}\n\n{text.text}" for text in collection.texts}
    little = set(_LITTLE_WORDS.split())
    questions = {}
    for question, said in collection.questions.items():
        asked = {tokenizer.stem(token) for _start, _end, token, _position in tokenizer.query_words(said)} - little
        held = max(len(asked & _stems(texts[answer])) for answer in collection.relevant[question])
        if asked and held * 3 <= len(asked):
            questions[question] = said
    relevant = {question: collection.relevant[question] for question in questions}
    return Collection(f"{collection.name}, other words", collection.texts, questions, relevant)


def _stems(text: str) -> set[str]:
    return {tokenizer.stem(token) for _start, _end, token, _position in tokenizer.words(text)}


def _rows(path: str) -> Iterator[dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _functions(path: str) -> Iterator[tuple[str, str, str]]:
    """Yield (name, first sentence of the docstring, source without it) of every function of some length."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if not isinstance(node, ast.FunctionDef) or not (said := ast.get_docstring(node)) or len(node.body) < 2:
            continue
        docstring = node.body[0]
        first = node.body[1].lineno
        source = lines[node.lineno - 1 : docstring.lineno - 1] + lines[first - 1 : node.end_lineno]
        sentence = re.split(r"(?<=[.!?])\s|\n\n", said.strip(), maxsplit=1)[0]
        sentence = " ".join(sentence.split()).rstrip(".")
        if len(source) >= 4 and sentence.isascii():
            yield node.name, sentence, "\n".join(source)
