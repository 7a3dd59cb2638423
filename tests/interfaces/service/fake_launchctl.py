#!/usr/bin/env python3
"""A `launchctl` for PATH that keeps its state in a file and refuses what the real one refuses, with its words.

The state is the JSON file that FAKE_LAUNCHCTL names; a test may change it between two calls.
"""

from __future__ import annotations

import json
import os
import plistlib
import sys
from typing import Any, NoReturn

STATE = os.environ["FAKE_LAUNCHCTL"]
# A service that was booted out is still seen for so many looks.
LINGERS = 2


def refuse(code: int, words: str) -> NoReturn:
    sys.stderr.write(f"{words}\n")
    raise SystemExit(code)


def domain_of(state: dict[str, Any], target: str, what: str) -> None:
    if target not in state["domains"]:
        refuse(125, f"{what} failed: 125: Domain does not support specified action")


def service_of(state: dict[str, Any], target: str, code: int, what: str) -> dict[str, Any]:
    domain, _, label = target.rpartition("/")
    if label not in state["services"] or domain not in state["domains"]:
        refuse(code, what or f'Could not find service "{label}" in domain for {domain}')
    found = state["services"][label]
    assert isinstance(found, dict)
    return found


def run(state: dict[str, Any], service: dict[str, Any]) -> None:
    state["next_pid"] += 1
    service.update(pid=state["next_pid"], state="running")
    service["runs"] += 1


def bootstrap(state: dict[str, Any], domain: str, path: str) -> None:
    domain_of(state, domain, "Bootstrap")
    if not os.path.isabs(path) or not os.path.exists(path):
        refuse(2, "Bootstrap failed: 2: No such file or directory")
    if os.stat(path).st_mode & 0o022:
        refuse(122, f"Bootstrap failed: 122: Path had bad ownership/permissions: {path}")
    with open(path, "rb") as file:
        properties = plistlib.load(file)
    label = properties["Label"]
    if label in state["services"]:
        leaving = "leaving" in state["services"][label]
        refuse(
            *(
                (37, "Bootstrap failed: 37: Operation already in progress")
                if leaving
                else (5, "Bootstrap failed: 5: Input/output error")
            )
        )
    if state["busy"]:
        state["busy"] -= 1
        refuse(5, "Bootstrap failed: 5: Input/output error")
    if label in state["disabled"]:
        refuse(5, "Bootstrap failed: 5: Input/output error")
    service = {"path": path, "properties": properties, "state": "not running", "runs": 0, "exit": None, "pid": None}
    state["services"][label] = service
    if properties.get("RunAtLoad"):
        run(state, service)


def bootout(state: dict[str, Any], target: str) -> None:
    service = service_of(state, target, 3, "Boot-out failed: 3: No such process")
    service.setdefault("leaving", LINGERS)
    refuse(36, "Boot-out failed: 36: Operation now in progress")


def show(state: dict[str, Any], target: str) -> None:
    service = service_of(state, target, 113, "")
    label = target.rpartition("/")[2]
    if "leaving" in service:
        service["leaving"] -= 1
        if service["leaving"] < 0:
            del state["services"][label]
            refuse(113, f'Could not find service "{label}" in domain for port')
    lines = [f"path = {service['path']}", "type = LaunchAgent", f"state = {service['state']}", ""]
    lines += ["environment = {", "\tXPC_SERVICE_NAME => " + label, "}", f"runs = {service['runs']}"]
    lines += [f"pid = {service['pid']}"] if service["pid"] else []
    lines += [f"last exit code = {service['exit'] or '(never exited)'}", "", "spawn type = daemon (3)"]
    lines += ["endpoints = {", "\tstate = active", "\tpid = 1", "}"]
    sys.stdout.write(target + " = {\n" + "".join(f"\t{line}\n" for line in lines) + "}\n")


def kickstart(state: dict[str, Any], target: str) -> None:
    service = service_of(state, target, 113, "")
    if service["pid"] is None:
        run(state, service)


def main(command: str, *rest: str) -> None:
    with open(STATE, encoding="utf-8") as file:
        state = json.load(file)
    state["calls"].append([command, *rest])
    try:
        match command:
            case "bootstrap":
                bootstrap(state, *rest)
            case "bootout":
                bootout(state, *rest)
            case "print":
                show(state, *rest)
            case "kickstart":
                kickstart(state, *rest)
            case "enable":
                state["disabled"] = [label for label in state["disabled"] if label != rest[0].rpartition("/")[2]]
            case "print-disabled":
                domain_of(state, rest[0], "Print-disabled")
                listed = [f'\t\t"{label}" => {state["says_disabled"]}\n' for label in state["disabled"]]
                sys.stdout.write("\tdisabled services = {\n" + "".join(listed) + '\t\t"com.apple.x" => enabled\n\t}\n')
            case _:
                refuse(64, f"Unrecognized subcommand: {command}")
    finally:
        with open(STATE, "w", encoding="utf-8") as file:
            json.dump(state, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
