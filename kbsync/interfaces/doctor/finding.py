"""What was found of one thing: how it is, in a sentence, and the one command or action that helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# `warning`: kbsync works, but not as it could. `problem`: something of it does not work. `unknown`: it cannot be told.
State = Literal["ok", "warning", "problem", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` is one exact command, or one action in a sentence; empty where nothing needs to be done."""

    state: State
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding under the name of its examination, which has several where several things are wrong."""

    name: str
    state: State
    detail: str
    remedy: str


class Unclear(Exception):
    """An examination cannot tell, since what it needs to know is not to be had; the text says what that is."""


def fine(detail: str) -> Finding:
    """Return that all is well."""
    return Finding("ok", detail)


def warning(detail: str, remedy: str) -> Finding:
    """Return that kbsync works, but not as it could."""
    return Finding("warning", detail, remedy)


def problem(detail: str, remedy: str) -> Finding:
    """Return that something does not work."""
    return Finding("problem", detail, remedy)


def unknown(detail: str, remedy: str = "") -> Finding:
    """Return that it could not be found out."""
    return Finding("unknown", detail, remedy)
