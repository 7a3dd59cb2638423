"""`kbsync project`: knowledge projects in the current folder, plain files that need neither the daemon nor an index."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kbsync.errors import KbsyncError, NotFound, UsageError
from kbsync.interfaces.cli.exits import FAILED, NOTHING, UNANSWERED, complain, errors_told
from kbsync.interfaces.cli.output import Record, block, counted, line, print_json, table
from kbsync.interfaces.cli.session import locations

if TYPE_CHECKING:
    from kbsync.compose.project_tools import ProjectModels
    from kbsync.config.settings import Settings
    from kbsync.projects.asking import Answer, Conversation
    from kbsync.projects.ingest import Taken
    from kbsync.projects.project import Project
    from kbsync.projects.state import ProjectState

app = typer.Typer(
    help="Knowledge projects: folders of plain files that a person or an assistant reads.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

# What people type who want to leave; nobody asks about that.
_ENDINGS = ("exit", "quit", "退出")
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="A project here; without it this folder, or the only one in it.")
]


@app.command("init")
def init(name: Annotated[str, typer.Argument(metavar="NAME", help="The folder to make here.")]) -> None:
    """Make a project in the current folder."""
    with _told():
        from kbsync.clock import SystemClock
        from kbsync.projects.starting import start

        project = start(os.getcwd(), name, SystemClock())
    line(f"Made {project.root}. Put files into {os.path.join(name, 'sources')}, then: kbsync project ingest")


@app.command("ingest")
def ingest(
    name: _Name = None,
    password_file: Annotated[
        str | None, typer.Option("--password-file", help="A file with the passwords of protected PDFs, one a line.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Take in what lies in sources/: parsed to Markdown, the original archived, both listed."""
    with _told():
        from kbsync.compose.project_tools import project_models, project_tools
        from kbsync.projects.ingest import ingest as take_in

        project, settings = _found(name), _settings()
        models = project_models(settings)
        with _quiet_log(), project_tools(settings, locations(), models, password_file) as tools:
            outcome = take_in(project, tools, tell=_progress, took=lambda one: None if as_json else _say_taken(one))
    if as_json:
        print_json(
            {
                "project": project.name,
                "ingested": [
                    {"file": one.file, "parsed": one.parsed, "archived": one.archived, "version": one.version}
                    for one in outcome.taken
                ],
                "refused": [{"file": one.file, "reason": one.message} for one in outcome.refused],
                "notices": [*outcome.notices, *_problem(models)],
            }
        )
    else:
        for notice in (*outcome.notices, *_problem(models)):
            complain(notice)
        for refusal in outcome.refused:
            complain(refusal.message)
        line(f"{counted(len(outcome.taken), 'file')} taken in, {len(outcome.refused)} refused.")
    if outcome.refused:
        raise typer.Exit(FAILED)


@app.command("rebuild")
def rebuild(name: _Name = None, as_json: _Json = False) -> None:
    """Write all of project.md anew from the parsed files; what a person wrote into it goes, but for the record."""
    with _told():
        from kbsync.clock import SystemClock
        from kbsync.compose.project_tools import project_models
        from kbsync.projects import rebuilding, summary

        project, models = _found(name), project_models(_settings())
        summarize = summary.summarize if models.writer is None else models.writer.summarize
        with _quiet_log():
            rebuilt = rebuilding.rebuild(project, SystemClock(), summarize, models.writer, _progress)
    notices = [*rebuilt.notices, *_problem(models)]
    if as_json:
        print_json({"project": project.name, "files": rebuilt.files, "notices": notices})
        return
    for notice in notices:
        complain(notice)
    line(f"{project.page} is written anew from {counted(rebuilt.files, 'file')}.")


@app.command("ask")
def ask(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION", help="A project's name may stand before it; without it a conversation begins."
        ),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Answer from a project's files, every statement with its file; exit code 3 where they hold no answer."""
    with _told():
        from kbsync.compose.project_tools import project_models
        from kbsync.projects.asking import Conversation

        project, question = _meant(words or [])
        conversation = Conversation(project, project_models(_settings()).answerer)
        with _quiet_log():
            if question is not None:
                answer = conversation.ask(question)
            elif as_json:
                raise UsageError("--json wants a question.", hint="Give it behind the name.")
            else:
                _converse(conversation)
                return
    if as_json:
        print_json(_answer_record(question, answer))
    else:
        _say(answer)
    if not answer.answered:
        raise typer.Exit(NOTHING)


@app.command("status")
def status(name: _Name = None, as_json: _Json = False) -> None:
    """Say what projects hold, what waits in sources/, and what is not as it should be."""
    with _told():
        from kbsync.projects import project as projects
        from kbsync.projects.state import state_of

        here = os.getcwd()
        if name is None and not projects.is_project(here) and (names := projects.projects_in(here)):
            found = [projects.find(here, one) for one in names]
        else:
            found = [_found(name)]
        states = [state_of(one) for one in found]
    if as_json:
        print_json({"projects": [_state_record(state) for state in states], "total": len(states)})
        return
    rows = [
        (one.name, one.files, one.versions, len(one.waiting), len(one.refused), one.last_ingest or "never")
        for one in states
    ]
    table(rows, ("PROJECT", "FILES", "VERSIONS", "WAITING", "REFUSED", "LAST INGEST"))
    for one in states:
        for told in (*(refusal.message for refusal in one.refused), *one.problems):
            line(f"! {one.name}: {told}")


@app.command("install-skill")
def install_skill(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Where the assistant reads skills/ and commands/.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace files that read otherwise.")] = False,
) -> None:
    """Put the skill and the commands for an assistant below a folder."""
    with _told():
        from kbsync.projects.skill import install_skill as put

        written, kept = put(os.path.abspath(folder), overwrite=yes)
    for path in written:
        line(os.path.join(folder, path))
    for path in kept:
        complain(f"{os.path.join(folder, path)} reads otherwise and was kept; --yes replaces it.")
    if kept:
        raise typer.Exit(UNANSWERED)


@contextmanager
def _told() -> Iterator[None]:
    """Tell errors as everywhere, and what the system says of a file or folder of the project as one."""
    with errors_told():
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            place = error.filename2 or error.filename
            raise KbsyncError(f"{place or 'A file'} cannot be used: {error.strerror or error}.") from error


def _found(name: str | None) -> Project:
    from kbsync.projects.project import find

    return find(os.getcwd(), name)


def _meant(words: list[str]) -> tuple[Project, str | None]:
    """Return (project, question): one word alone is a name where such a project is here."""
    from kbsync.projects.project import find, is_project

    named = bool(words and words[0]) and is_project(words[0])
    if len(words) > 2:
        words = [words[0], " ".join(words[1:])] if named else [" ".join(words)]
    if len(words) == 2 and not named:
        raise NotFound(f"There is no project {words[0]} here.", hint="Put the question in quotation marks.")
    name = words[0] if named else None
    question = words[-1] if len(words) == 2 or (words and name is None) else None
    return find(os.getcwd(), name), question


def _converse(conversation: Conversation) -> None:
    """Answer line after line, until the end of what can be read."""
    terminal = sys.stdin.isatty()
    if terminal:
        complain(f"questions about {conversation.project.name}, one a line; Ctrl+D ends it.")
    while True:
        if terminal:
            print("? ", end="", flush=True)
        question = sys.stdin.readline()
        if not question or question.strip().lower() in _ENDINGS:
            return
        if question.strip():
            _say(conversation.ask(question.strip()))
            line()


def _say(answer: Answer) -> None:
    for notice in answer.notices:
        complain(notice)
    block(answer.text)


def _answer_record(question: str, answer: Answer) -> Record:
    return {
        "question": question,
        "answered": answer.answered,
        "answer": answer.text,
        "by": answer.by,
        "files": list(answer.files),
        "passages": [
            {"file": one.file.path, "source": one.file.source, "section": one.headers, "text": one.text}
            for one in answer.passages
        ],
        "notices": list(answer.notices),
    }


def _state_record(state: ProjectState) -> Record:
    return {
        "name": state.name,
        "path": state.root,
        "files": state.files,
        "versions": state.versions,
        "last_ingest": state.last_ingest,
        "waiting": list(state.waiting),
        "refused": [{"file": one.file, "reason": one.message} for one in state.refused],
        "problems": list(state.problems),
    }


def _settings() -> Settings:
    from kbsync.config.settings import load_settings

    return load_settings(locations().config_file)


def _problem(models: ProjectModels) -> list[str]:
    """Say why the model did not write, where one is configured and it did not."""
    problem = None if models.writer is None else models.writer.problem
    return [] if problem is None else [f"{problem} Sentences were taken out of the texts in its place."]


def _say_taken(one: Taken) -> None:
    version = f" (version {one.version})" if one.version > 1 else ""
    line(f"{one.file} -> {one.parsed}, {one.archived}{version}")


def _progress(file: str) -> None:
    if sys.stderr.isatty():
        complain(f"reading {file}")


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Send what is logged meanwhile to the log and not to the terminal."""
    from kbsync import log

    log.configure(locations().log_file, "info", terminal=False)
    yield
