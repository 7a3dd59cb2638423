"""Where a backup's folders lie now: whole names only, the longest rule first, however an argument is spelt."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.errors import UsageError
from kbsync.knowledge_base.path_map import PathMap, Rule, is_within, rules_of, spellings

_KNOWN = (b"/home/ann/docs", b"/home/ann/docs/a.md", b"/mnt/disk/b.md", b"/home/ann/x=y/c.md", b"/odd/\xff\xfe/d.md")
# Few names, so that paths often share their beginning, or look as if they did.
_names = st.sampled_from([b"a", b"b", b"ab", b"a=b", b"\xff", "é".encode(), " "[:1].encode()])
_paths = st.lists(_names, min_size=1, max_size=4).map(lambda names: b"/" + b"/".join(names))


def mapped(path: bytes, *arguments: str, known: tuple[bytes, ...] = _KNOWN) -> bytes | None:
    return PathMap(rules_of(arguments, known, "/home/ann", "/home/bob"))(path)


@pytest.mark.parametrize(
    ("arguments", "path", "expected"),
    [
        (["/home/ann/docs=/data"], b"/home/ann/docs/a.md", b"/data/a.md"),
        (["/home/ann/docs=/data"], b"/home/ann/docs", b"/data"),
        (["/home/ann/docs=/data"], b"/home/ann/docs2/a.md", None),
        (["/home/ann/docs=/data"], b"/home/ann", None),
        (["/home/ann/docs/=/data/"], b"/home/ann/docs/a.md", b"/data/a.md"),
        (["//home///ann/./docs=/data//new"], b"/home/ann/docs/a.md", b"/data/new/a.md"),
        (["/home/ann=/home/bob", "/home/ann/docs=/data"], b"/home/ann/docs/a.md", b"/data/a.md"),
        (["/home/ann/docs=/data", "/home/ann=/home/bob"], b"/home/ann/x=y/c.md", b"/home/bob/x=y/c.md"),
        (["/home/ann/x=y=/data"], b"/home/ann/x=y/c.md", b"/data/c.md"),
        (["/home/ann/x=y=/new=1"], b"/home/ann/x=y/c.md", b"/new=1/c.md"),
        (["/=/backup"], b"/mnt/disk/b.md", b"/backup/mnt/disk/b.md"),
        (["/mnt/disk=/"], b"/mnt/disk/b.md", b"/b.md"),
        (["/mnt/disk=/"], b"/mnt/disk", b"/"),
        (["~/docs=~/Documents"], b"/home/ann/docs/a.md", b"/home/bob/Documents/a.md"),
        (["~=~"], b"/home/ann/docs/a.md", b"/home/bob/docs/a.md"),
        (["/odd/\udcff\udcfe=/even/\udcfd"], b"/odd/\xff\xfe/d.md", b"/even/\xfd/d.md"),
        (["/mnt/disk=/mnt/disk"], b"/mnt/disk/b.md", b"/mnt/disk/b.md"),
    ],
)
def test_a_path_lies_where_the_longest_rule_says(arguments: list[str], path: bytes, expected: bytes | None) -> None:
    assert mapped(path, *arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/home/ann/docs"], "no OLD=NEW"),
        (["docs=/data"], "no OLD=NEW"),
        (["/home/ann/docs=data"], "no OLD=NEW"),
        (["~bob/docs=/data"], "no OLD=NEW"),
        (["/home/ann/docs=/da\0ta"], "no OLD=NEW"),
        (["/nowhere=/data"], "holds nothing of /nowhere"),
        (["/home/ann/doc=/data"], "holds nothing of /home/ann/doc"),
        (["/mnt/disk=/a", "/mnt/disk/=/b"], "mapped twice"),
    ],
)
def test_what_means_nothing_is_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        mapped(b"/home/ann/docs/a.md", *arguments)


def test_the_same_rule_twice_is_one() -> None:
    assert mapped(b"/mnt/disk/b.md", "/mnt/disk=/a", "/mnt/disk/=/a") == b"/a/b.md"


@pytest.mark.parametrize(("stored", "typed"), [("NFD", "NFC"), ("NFC", "NFD"), ("NFC", "NFC")])
def test_a_name_in_another_form_of_unicode_is_found(stored: str, typed: str) -> None:
    known = os.fsencode(unicodedata.normalize(stored, "/disk/Café/a.md"))  # type: ignore[arg-type]
    argument = unicodedata.normalize(typed, "/disk/Café=/new")  # type: ignore[arg-type]
    assert mapped(known, argument, known=(known,)) == b"/new/a.md"


def test_two_folders_that_differ_in_their_form_only_are_told_apart() -> None:
    composed, decomposed = (f"/{unicodedata.normalize(form, 'é')}/a".encode() for form in ("NFC", "NFD"))
    known = (composed, decomposed)
    assert mapped(composed, "/\u00e9=/new", known=known) == b"/new/a"
    assert mapped(decomposed, "/\u00e9=/new", known=known) is None


@given(_paths, st.lists(st.tuples(_paths, _paths), max_size=4))
def test_a_rule_moves_what_is_within_its_folder_and_nothing_else(path: bytes, pairs: list[tuple[bytes, bytes]]) -> None:
    rules = [Rule(old, new) for old, new in dict(pairs).items()]
    fitting = [rule for rule in rules if path.split(b"/")[: rule.old.count(b"/") + 1] == rule.old.split(b"/")]
    found = PathMap(rules)(path)
    if not fitting:
        assert found is None
    else:
        longest = max(fitting, key=lambda rule: len(rule.old))
        assert found == longest.new + path[len(longest.old) :]


@given(_paths, _paths, _paths)
def test_a_rule_and_its_reverse_bring_a_path_back(path: bytes, old: bytes, new: bytes) -> None:
    there = PathMap([Rule(old, new)])(path)
    assert there is None or PathMap([Rule(new, old)])(there) == path


@given(_paths, _paths)
def test_order_within_a_folder_does_not_change(path: bytes, new: bytes) -> None:
    folder = path.rsplit(b"/", 1)[0] or b"/"
    move = PathMap([Rule(folder, new)])
    paths = sorted({path, path + b"/a", path + b"a", path + b"/\xff"})
    moved = [move(one) for one in paths if is_within(one, folder)]
    assert moved == sorted(one for one in moved if one is not None)
    assert spellings(folder, paths) == [folder]
