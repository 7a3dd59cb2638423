"""How programs save a file: the steps on the disk by which its new text comes under its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

Save = Callable[[Path, str], None]


def in_place(file: Path, text: str) -> None:
    file.write_text(text)


def by_rename(file: Path, text: str) -> None:
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    os.replace(new, file)


def vim_backup(file: Path, text: str) -> None:
    backup = file.with_name(file.name + "~")
    os.rename(file, backup)
    file.write_text(text)
    backup.unlink()


def vim_swap(file: Path, text: str) -> None:
    swap = file.with_name(f".{file.name}.swp")
    swap.write_text("b0VIM 9.0")
    probe = file.with_name("4913")
    probe.touch()
    probe.unlink()
    vim_backup(file, text)
    swap.unlink()


def text_edit(file: Path, text: str) -> None:
    new = file.with_name(f"{file.name}.sb-3fae1b2c-Xq2YzA")
    new.write_text(text)
    old = file.with_name(f"{file.name}.sb-3fae1b2c-old")
    os.rename(file, old)
    os.rename(new, file)
    old.unlink()


def office(file: Path, text: str) -> None:
    lock = file.with_name("~$" + file.name[2:])
    lock.write_text("someone")
    new, old = file.with_name("A1B2C3D4.tmp"), file.with_name("~WRL0001.tmp")
    new.write_text(text)
    os.rename(file, old)
    os.rename(new, file)
    old.unlink()
    lock.unlink()


def jetbrains(file: Path, text: str) -> None:
    new, old = file.with_name(file.name + "___jb_tmp___"), file.with_name(file.name + "___jb_old___")
    new.write_text(text)
    os.rename(file, old)
    os.rename(new, file)
    old.unlink()


def emacs(file: Path, text: str) -> None:
    auto, lock = file.with_name(f"#{file.name}#"), file.with_name(f".#{file.name}")
    auto.write_text(text)
    lock.symlink_to("someone@here:1234")
    os.link(file, file.with_name(file.name + "~"))
    by_rename(file, text)
    file.with_name(file.name + "~").unlink()
    auto.unlink()
    lock.unlink()


def git_checkout(file: Path, text: str) -> None:
    file.unlink()
    file.write_text(text)


def emptied_first(file: Path, text: str) -> None:
    with file.open("w") as opened:
        opened.flush()
        os.fsync(opened.fileno())
        opened.write(text)


SAVES: tuple[Save, ...] = (
    in_place,
    by_rename,
    vim_backup,
    vim_swap,
    text_edit,
    office,
    jetbrains,
    emacs,
    git_checkout,
    emptied_first,
)
