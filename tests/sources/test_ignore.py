"""Verdicts of the ignore rules, as tables, and against git itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbsync.errors import ConfigurationError
from kbsync.filesystem import FileKind, RealFileSystem, Stat
from kbsync.model import Source
from kbsync.reasons import Reason
from kbsync.sources.ignore import IgnoreRules, is_watchable, reading_of, rules_for
from kbsync.sources.scanner import scan

SOURCE = Source(1, "/notes")


def stat(kind: FileKind = "file", size: int = 10, inode: int = 5) -> Stat:
    return Stat(kind, size, 0, 0, inode, 1)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a.md", None),
        ("deep/er/A.MD", None),
        ("a.xyz", Reason.UNSUPPORTED),
        ("Makefile", Reason.UNSUPPORTED),
        (".hidden.md", Reason.IGNORED),
        ("deep/.hidden.md", Reason.IGNORED),
        ("~$letter.md", Reason.IGNORED),
        ("film.md.part", Reason.IGNORED),
        ("film.CRDOWNLOAD", Reason.IGNORED),
        ("film.download", Reason.IGNORED),
        ("film.partial", Reason.IGNORED),
        (".a.md.swp", Reason.IGNORED),
        ("a.md.swp", Reason.IGNORED),
        ("a.md~", Reason.IGNORED),
        (".#a.md", Reason.IGNORED),
        ("#a.md#", Reason.IGNORED),
        ("a.tmp", Reason.IGNORED),
        ("#a.md", None),
        (".env", Reason.SECRET),
        (".env.production.yaml", Reason.SECRET),
        (".ENV", Reason.SECRET),
        ("id_rsa", Reason.SECRET),
        ("id_rsa.pub", Reason.SECRET),
        ("id_ed25519.md", Reason.SECRET),
        ("id_ecdsa", Reason.SECRET),
        ("id_dsa", Reason.SECRET),
        ("deep/Server.PEM", Reason.SECRET),
        ("tls.key", Reason.SECRET),
        ("a.p12", Reason.SECRET),
        ("a.pfx", Reason.SECRET),
        ("passwords.kdbx", Reason.SECRET),
        (".netrc", Reason.SECRET),
        (".pgpass", Reason.SECRET),
        ("_netrc", Reason.SECRET),
        (".git-credentials", Reason.SECRET),
        (".npmrc", Reason.SECRET),
        (".pypirc", Reason.SECRET),
        ("client_secret_42.json", Reason.SECRET),
        ("putty.ppk", Reason.SECRET),
        (".bash_history", Reason.SECRET),
        (".zsh_history", Reason.SECRET),
        (".python_history", Reason.SECRET),
        ("cookies.sqlite", Reason.SECRET),
        ("profile/logins.json", Reason.SECRET),
        ("profile/key4.db", Reason.SECRET),
        ("profile/Login Data", Reason.SECRET),
        ("profile/Cookies", Reason.SECRET),
        (".git/config", Reason.SECRET),
        ("project/.git/config", Reason.SECRET),
        ("git/config", Reason.UNSUPPORTED),
        ("cookies.md", None),
        ("history.md", None),
        ("login data.md", None),
        ("environment.md", None),
        ("my_id_rsa.md", None),
        ("caf\udce9.md", None),
        ("line\nbreak.md", None),
        ("line\n.pem", Reason.SECRET),
    ],
)
def test_a_files_name_decides(path: str, reason: Reason | None) -> None:
    assert rules_for(SOURCE).judge_file(path, stat()) is reason


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("docs", None),
        ("docs/more", None),
        (".git", Reason.IGNORED),
        (".anything", Reason.IGNORED),
        ("web/node_modules", Reason.IGNORED),
        ("bower_components", Reason.IGNORED),
        ("__pycache__", Reason.IGNORED),
        ("lib/site-packages", Reason.IGNORED),
        (".tox", Reason.IGNORED),
        ("venv", Reason.IGNORED),
        ("thesis.md.download", Reason.IGNORED),
        (".ssh", Reason.SECRET),
        ("backup/.SSH", Reason.SECRET),
        (".gnupg", Reason.SECRET),
        (".aws", Reason.SECRET),
        (".kube", Reason.SECRET),
        (".docker", Reason.SECRET),
        (".mozilla", Reason.SECRET),
        ("Library/Keychains", Reason.SECRET),
        (".config/gh", Reason.SECRET),
        (".config/google-chrome", Reason.SECRET),
        ("Library/Application Support/Google/Chrome", Reason.SECRET),
        ("AppData/Roaming/Mozilla/Firefox/Profiles", Reason.SECRET),
        ("Firefox", None),
        ("Google", None),
        ("notes/chrome", None),
        ("node_modules_notes", None),
        ("environment", None),
    ],
)
def test_a_folders_name_decides(path: str, reason: Reason | None) -> None:
    assert rules_for(SOURCE).judge_folder(path, stat("directory")) is reason


@pytest.mark.parametrize(
    ("path", "found", "reason"),
    [
        (".env", stat("symlink"), Reason.SYMLINK),
        (".env", stat("special"), Reason.SPECIAL),
        (".env", stat(size=0), Reason.SECRET),
        (".hidden.xyz", stat(size=0), Reason.IGNORED),
        ("a.xyz", stat(size=0), Reason.UNSUPPORTED),
        ("a.md", stat(size=0), Reason.EMPTY),
        ("a.md", stat(size=1), None),
        ("a.log", stat(size=10**13), None),
        ("a.log", replace(stat(size=10**13), allocated=10**13), None),
        ("a.log", replace(stat(size=10**12), allocated=0), Reason.TOO_LARGE),
        ("a.log", replace(stat(size=10**12), allocated=10**11), Reason.TOO_LARGE),
        ("a.log", replace(stat(size=10**9), allocated=10**8), None),
        ("a.log", replace(stat(size=10**6), allocated=0), None),
        ("a.md", replace(stat(size=1), cloud_only=True), Reason.CLOUD_ONLY),
        ("a.md", replace(stat(size=0), cloud_only=True), Reason.CLOUD_ONLY),
        ("a.xyz", replace(stat(size=1), cloud_only=True), Reason.UNSUPPORTED),
    ],
)
def test_the_first_of_several_reasons_is_told(path: str, found: Stat, reason: Reason | None) -> None:
    assert rules_for(SOURCE).judge_file(path, found) is reason


def test_every_type_that_is_read_from_its_start_has_no_size_limit() -> None:
    small = rules_for(SOURCE, too_large_bytes=5)
    assert [small.judge_file(name, stat(size=6)) for name in ("a.md", "a.py", "a.csv", "a.json", "a.log", "a.eml")] == [
        None
    ] * 6


def test_kbsyncs_own_folders_are_left_out_whatever_their_name() -> None:
    rules = rules_for(replace(SOURCE, ignore=("!data",)), frozenset({(1, 99)}))
    assert rules.judge_folder("data", stat("directory", inode=99)) is Reason.IGNORED
    assert rules.judge_folder("data", stat("directory", inode=98)) is None


@pytest.mark.parametrize(
    ("include", "path", "reason"),
    [
        (("*.md",), "deep/a.md", None),
        (("*.md",), "a.py", Reason.IGNORED),
        (("docs/",), "docs/deep/a.py", None),
        (("docs/",), "a.py", Reason.IGNORED),
        (("docs/**/*.md",), "docs/x/y/a.md", None),
        (("docs/**/*.md",), "docs/x/y/a.py", Reason.IGNORED),
        (("*.md", "!draft*"), "draft.md", Reason.IGNORED),
        (("*.xyz",), "a.xyz", None),
        (("*.xyz",), "deep/a.xyz", None),
        (("*.xyz", "!b.*"), "b.xyz", Reason.IGNORED),
        (("docs/**/*.xyz",), "docs/deep/a.xyz", None),
        (("*.[ch]",), "a.c", None),
        (("Makefile",), "deep/Makefile", None),
        (("*",), "a.xyz", Reason.UNSUPPORTED),
        (("*.*",), "a.xyz", Reason.UNSUPPORTED),
        (("*.x*",), "a.xyz", Reason.UNSUPPORTED),
        (("docs/",), "docs/a.xyz", Reason.UNSUPPORTED),
        (("docs/", "*.abc"), "docs/a.xyz", Reason.UNSUPPORTED),
        (("a.xyz/",), "a.xyz/b.uvw", Reason.UNSUPPORTED),
        (("*.doc", "*.rtf", "*.odt"), "a.rtf", Reason.UNSUPPORTED),
        (("*.tmp",), "a.tmp", Reason.IGNORED),
        (("*.pem",), "a.pem", Reason.SECRET),
        (("*",), ".env", Reason.SECRET),
        (("*",), ".hidden.md", Reason.IGNORED),
    ],
)
def test_where_something_is_included_only_that_is_read(
    include: tuple[str, ...], path: str, reason: Reason | None
) -> None:
    assert rules_for(replace(SOURCE, include=include)).judge_file(path, stat()) is reason


def ruled(*files: tuple[str, str], ignore: tuple[str, ...] = ()) -> IgnoreRules:
    rules = rules_for(replace(SOURCE, ignore=ignore))
    for folder, text in files:
        rules = rules.with_folder_rules(folder, text)
    return rules


@pytest.mark.parametrize(
    ("rules", "path", "ignored"),
    [
        (ruled(ignore=("*.log",)), "deep/a.log", True),
        (ruled(("", "*.log\n")), "deep/a.log", True),
        (ruled(("", "/a.log\n")), "deep/a.log", False),
        (ruled(("deep", "/a.log\n")), "deep/a.log", True),
        (ruled(("deep", "*.log\n")), "a.log", False),
        (ruled(("deep", "*.log\n")), "deeper/a.log", False),
        (ruled(("", "*.log\n!keep.log\n")), "keep.log", False),
        (ruled(("", "!keep.log\n*.log\n")), "keep.log", True),
        (ruled(("", "*.log\n"), ("deep", "!keep.log\n")), "deep/keep.log", False),
        (ruled(("", "*.log\n"), ("deep", "!keep.log\n")), "keep.log", True),
        (ruled(("", "!keep.log\n"), ("deep", "*.log\n")), "deep/keep.log", True),
        (ruled(("", "*.log\n"), ignore=("!keep.log",)), "keep.log", False),
        (ruled(("deep", "!*.log\n"), ignore=("*.log",)), "deep/a.log", True),
        (ruled(("", "!.hidden.md\n")), ".hidden.md", False),
        (ruled(("", "# a comment\n\n\\#a.md\n")), "#a.md", True),
        (ruled(("", "\ufeffa.md\r\nb.md\r\n")), "a.md", True),
        (ruled(("", "\ufeffa.md\r\nb.md\r\n")), "b.md", True),
        (ruled(("", "[z-a]\n!\n\\\na.md\n")), "a.md", True),
        (ruled(("", "caf\udce9.md\n")), "caf\udce9.md", True),
    ],
)
def test_the_last_and_deepest_rule_wins(rules: IgnoreRules, path: str, ignored: bool) -> None:
    assert (rules.judge_file(path, stat()) is Reason.IGNORED) == ignored


def test_a_rule_for_folders_only_leaves_files_alone() -> None:
    rules = ruled(("", "build.md/\n"))
    assert rules.judge_file("build.md", stat()) is None
    assert rules.judge_folder("build.md", stat("directory")) is Reason.IGNORED


def test_secrets_cannot_be_taken_back_in() -> None:
    rules = ruled(("", "!.env\n!.ssh/\n"), ignore=("!.env", "!.ssh/"))
    assert rules.judge_file(".env", stat()) is Reason.SECRET
    assert rules.judge_folder(".ssh", stat("directory")) is Reason.SECRET


@pytest.mark.parametrize("root", ["/home/me/.ssh", "/home/me/.aws/more", "/home/me/.config/gh"])
def test_a_source_in_a_folder_of_secrets_gives_nothing(root: str) -> None:
    rules = rules_for(Source(1, root, include=("*",)))
    assert rules.judge_file("notes.md", stat()) is Reason.SECRET
    assert rules.judge_folder("folder", stat("directory")) is Reason.SECRET


def test_a_folder_in_the_cloud_is_not_entered() -> None:
    """F32: listing it would download the list."""
    assert rules_for(SOURCE).judge_folder("a", replace(stat("directory"), cloud_only=True)) is Reason.CLOUD_ONLY


@pytest.mark.parametrize("setting", ["ignore", "include"])
def test_a_pattern_in_the_settings_that_cannot_be_read_is_named(setting: str) -> None:
    source = replace(SOURCE, ignore=("[z-a]",)) if setting == "ignore" else replace(SOURCE, include=("[z-a]",))
    with pytest.raises(ConfigurationError, match=setting) as caught:
        rules_for(source)
    assert "[z-a]" in str(caught.value)
    assert "/notes" in str(caught.value)


def test_the_fingerprint_moves_with_every_rule_and_with_nothing_else() -> None:
    base = rules_for(SOURCE)
    others = [
        rules_for(replace(SOURCE, ignore=("*.log",))),
        rules_for(replace(SOURCE, include=("*.log",))),
        rules_for(SOURCE, too_large_bytes=5),
        base.with_folder_rules("", "*.log"),
        base.with_folder_rules("deep", "*.log"),
        base.with_folder_rules("", "*.log").with_folder_rules("deep", "*.log"),
    ]
    assert len({base.fingerprint, *(rules.fingerprint for rules in others)}) == len(others) + 1
    assert [reading_of(rules.fingerprint) for rules in (base, *others)] == ["auto"] * (len(others) + 1)
    assert reading_of(rules_for(replace(SOURCE, ocr="never")).with_folder_rules("", "*.log").fingerprint) == "never"
    same = rules_for(Source(2, "/elsewhere", recursive=False), frozenset({(1, 2)}))
    assert same.fingerprint == base.fingerprint
    assert base.with_folder_rules("", "# only a comment\n").fingerprint == base.fingerprint


@pytest.mark.parametrize(
    ("folder", "watchable"),
    [("docs", True), ("docs/deep", True), ("docs/.git/x", False), ("node_modules", False), ("a/node_modules/b", False)],
)
def test_events_below_noise_folders_are_not_worth_having(folder: str, watchable: bool) -> None:
    assert is_watchable(folder) == watchable


# ---- against git ----

_NAMES = ("a", "b", "keep", "build")
_FILES = [
    "/".join(parts)
    for parts in [
        *(("a.md",), ("b.md",), ("keep.md",)),
        *((x, f"{y}.md") for x in _NAMES for y in _NAMES),
        *((x, y, f"{z}.md") for x in _NAMES[1:] for y in _NAMES[1:] for z in ("a", "keep")),
    ]
]
_PATTERN = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "", "/", "**/", "b/", "*/"]),
        st.sampled_from(["*", "a*", "*.md", "keep", "keep.md", "build", "b", "[ab].md", "?.md", "**", "**/keep"]),
        st.sampled_from(["", "", "/", "/*", "/**", "/keep.md"]),
    ),
    # pathspec reads `b/**/` as b itself, git as the folders below it
).filter(lambda pattern: not pattern.endswith("**/"))
_RULE_FILE = st.lists(_PATTERN, max_size=4).map("\n".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path_factory.mktemp("repository").resolve()
    subprocess.run(["git", "init", "-q", str(root)], check=True, capture_output=True)
    for name in _FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1")
    return root


@settings(max_examples=60, deadline=None)
@given(rules=st.tuples(_RULE_FILE, _RULE_FILE, _RULE_FILE))
@example(rules=("*/*\n!**/keep/**", "", ""))
def test_rule_files_mean_what_they_mean_to_git(repository: Path, rules: tuple[str, str, str]) -> None:
    for folder, text in zip((".", "b", "b/keep"), rules, strict=True):
        (repository / folder / ".gitignore").write_text(text)
    command = ["git", "-C", str(repository), "ls-files", "-z", "--others", "--exclude-standard"]
    environment = {
        **os.environ,
        "HOME": str(repository),
        "XDG_CONFIG_HOME": str(repository),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    listed = subprocess.run(command, check=True, capture_output=True, env=environment).stdout.decode().split("\0")
    by_git = {name for name in listed if name.endswith(".md")}
    walk = scan(RealFileSystem(), Source(1, str(repository)))
    assert {os.path.relpath(seen.path, repository) for seen in walk if seen.reason is None} == by_git
