"""The kernel's list of watches against the folders that a walk entered."""

from __future__ import annotations

import pytest

from kbsync.sources.coverage import innermost, kernel_watches, limit_notice, to_watch_anew

FDINFO = """pos:\t0
flags:\t02
mnt_id:\t16
ino:\t1057
inotify wd:3 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:7e9e0000640d1b6d
inotify wd:2 ino:a111 sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:11a1000020542153
inotify wd:1f ino:6b149 sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:49b1060023552153
"""


def test_descriptors_and_inodes_are_read_as_hexadecimal() -> None:
    assert kernel_watches(FDINFO) == {3: 0x9E7E, 2: 0xA111, 31: 0x6B149}
    assert kernel_watches("") == {}


@pytest.mark.parametrize(
    ("ours", "kernel", "anew"),
    [
        pytest.param({"/r": 1, "/r/a": 2}, {1: 10, 2: 20}, [], id="all watched"),
        pytest.param({"/r": 1}, {1: 10}, ["/r/a"], id="never known"),
        pytest.param({"/r": 1, "/r/a": 2}, {1: 10}, ["/r/a"], id="dropped by the kernel"),
        pytest.param({"/r": 1, "/r/a": 2}, {1: 10, 2: 99}, ["/r/a"], id="on a folder that is elsewhere now"),
        pytest.param({"/r": 1, "/r/a": 2}, {1: 77, 2: 99}, [], id="the kernel counts inodes otherwise here"),
        pytest.param({"/r": 1, "/r/a": 2}, {1: 77}, ["/r/a"], id="counts otherwise, and dropped one"),
        pytest.param({}, {}, ["/r", "/r/a"], id="nothing"),
    ],
)
def test_what_is_to_be_watched_anew(ours: dict[str, int], kernel: dict[int, int], anew: list[str]) -> None:
    assert to_watch_anew("/r", {"/r": 10, "/r/a": 20}, ours, kernel) == anew


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/r/target", "/r/target"),
        ("/r/target/x/y", "/r/target"),
        ("/r/a/b/c", "/r/a/b"),
        ("/r/a/c", "/r/a"),
        ("/r/target2", None),
        ("/r", None),
        ("/", None),
        ("", None),
    ],
)
def test_a_path_lies_in_a_folder_by_whole_names(path: str, folder: str | None) -> None:
    assert innermost(path, frozenset({"/r/target", "/r/a/b", "/r/a"})) == folder
    assert innermost(path, frozenset()) is None


@pytest.mark.parametrize(
    ("unwatched", "limit", "words"),
    [
        (21, 10, "21 folders of /notes are not watched"),
        (1, 10, "1 folder of /notes is not watched"),
        (400_000, 192_536, "fs.inotify.max_user_watches=2097152"),
        (21, 10, "fs.inotify.max_user_watches=524288"),
        (21, None, "limit of watches"),
    ],
)
def test_the_notice_says_how_many_and_a_limit_that_fits(unwatched: int, limit: int | None, words: str) -> None:
    assert words in limit_notice("/notes", unwatched, limit)
