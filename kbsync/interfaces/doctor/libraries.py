"""Whether the libraries are there that kbsync asks for, in versions that it works with."""

from __future__ import annotations

import importlib.metadata
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence

from kbsync.interfaces.doctor.finding import Finding, fine, problem
from kbsync.interfaces.doctor.subject import Subject


def look(subject: Subject) -> list[Finding]:
    """Examine what is installed."""
    return judge(requirements(), installed, subject.pip)


def judge(
    wanted: Sequence[str],
    version_of: Callable[[str], str | None],
    pip: Callable[..., str],
    environment: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Compare requirements (PEP 508) with what is installed; `environment` in place of this one for their markers."""
    from packaging.requirements import Requirement

    lacking, wrong = [], []
    asked = [Requirement(one) for one in wanted]
    mine = [one for one in asked if one.marker is None or one.marker.evaluate({"extra": "", **(environment or {})})]
    for one in mine:
        there = version_of(one.name)
        if there is None:
            lacking.append(f"{one.name} is missing")
        elif not one.specifier.contains(there, prereleases=True):
            lacking.append(f"{one.name} {there} is installed, {one.specifier} is wanted")
        else:
            continue
        wrong.append(f"{one.name}{one.specifier}")
    if not lacking:
        return [fine(f"{len(mine)} libraries, each in a version that kbsync works with.")]
    return [problem(f"{'; '.join(lacking)}.", pip("install", *wrong))]


def requirements() -> list[str]:
    """Return what kbsync asks for: what pyproject.toml of a checkout says, else what was installed says."""
    here = os.path.dirname(os.path.abspath(__file__))
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    try:
        with open(os.path.join(checkout, "pyproject.toml"), "rb") as file:
            project = tomllib.load(file).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        project = {}
    if project.get("name") == "kbsync":
        return [str(one) for one in project["dependencies"]]
    return importlib.metadata.requires("kbsync") or []


def installed(name: str) -> str | None:
    """Return the version of an installed library, None where it is not there."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
