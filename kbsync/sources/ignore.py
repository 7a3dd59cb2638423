"""Which files of a source are left out, and why: secrets, the built-in list, .gitignore and .kbignore, the settings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pathspec import GitIgnoreSpec

from kbsync.errors import ConfigurationError
from kbsync.file_types import UNBOUNDED_TYPES, conversion_hint, ending_of, supported_endings, type_of
from kbsync.filesystem import Stat
from kbsync.model import Source
from kbsync.reasons import Reason

# In this order in each folder: where both speak of a file, kbsync's own has the last word.
FOLDER_RULES = (".gitignore", ".kbignore")
# A file of a type that cannot be read from its start only is left out above this many bytes.
TOO_LARGE_BYTES = 200_000_000

# Raise it when the code below judges otherwise although no pattern changed.
_VERSION = 3

_SECRET_FILES = (
    *(".env*", "id_rsa*", "id_ed25519*", "id_ecdsa*", "id_dsa*"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdb", "*.kdbx", "*.keychain*"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".npmrc", ".pypirc", ".dockercfg"),
    *(".s3cfg", ".boto", ".vault-token", "client_secret*", "wallet.dat", "secring.*"),
    # what was typed, passwords among it
    *(".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".histfile", ".lesshst", ".python_history"),
    *(".node_repl_history", ".irb_history", ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history"),
    # where browsers keep logins and sessions, under whatever folder they were copied to
    *("*.sqlite", "*.sqlite3", "logins.json", "key3.db", "key4.db", "cookies", "web data"),
    *("login data", "login data for account"),
)
_SECRET_FOLDERS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", "keychains", "keyrings"),
    *(".mozilla", ".thunderbird"),
)
# Folders that only their place makes secret.
_SECRET_PLACE = re.compile(
    r"/(?:\.config/(?:gcloud|gh|google-chrome|chromium|bravesoftware)|google/chrome|bravesoftware/brave-browser"
    r"|microsoft edge|(?:firefox|thunderbird)/profiles)(?:/|\Z)",
    re.IGNORECASE,
)
_NOISE_FILES = (
    *(".*", "~$*"),  # hidden; the lock that an office program lays beside an open document
    *("*.part", "*.crdownload", "*.download", "*.partial"),
    *("*.swp", "*.swo", "*~", "#*#", "*.tmp"),
)
# `.*` covers .git, .hg, .svn, .venv, .tox, .nox and their like.
_NOISE_FOLDERS = (".*", "node_modules", "bower_components", "__pycache__", "site-packages", "venv", "*.download")

# The group by which pathspec tells that a pattern matched a folder on the way and not the name itself.
_FOLDER_MARK = "ps_d"


class _Names:
    """Whether a name is on a list, whatever its case. Asked for every file of every walk: no regex is as fast."""

    def __init__(self, globs: Iterable[str]) -> None:
        parts = [glob.lower().partition("*") for glob in globs]
        self._whole = frozenset(first for first, mark, _ in parts if not mark)
        self._begin = tuple(first for first, mark, last in parts if mark and not last)
        self._end = tuple(last for first, mark, last in parts if mark and not first)
        self._both = tuple((first, last) for first, mark, last in parts if first and last)

    def hold(self, name: str) -> bool:
        """Return whether a name is on the list."""
        lower = name.lower()
        if lower.endswith(self._end) or lower.startswith(self._begin) or lower in self._whole:
            return True
        for first, last in self._both:  # a generator would cost more than all the rest
            if lower.startswith(first) and lower.endswith(last) and len(lower) >= len(first) + len(last):
                return True
        return False


_SECRET_FILE, _SECRET_FOLDER = _Names(_SECRET_FILES), _Names(_SECRET_FOLDERS)
_NOISE_FILE, _NOISE_FOLDER = _Names(_NOISE_FILES), _Names(_NOISE_FOLDERS)

# A file this much larger than what the disk holds of it is holes: by share, or by so many bytes.
_HOLES_SHARE = 256
_HOLES_BYTES = 16 << 30


def is_watchable(relative_folder: str) -> bool:
    """Say whether events below a folder are worth having: no part of its path is on the built-in lists.

    A folder that other rules take back in is still read, by the scans.
    """
    return not any(_NOISE_FOLDER.hold(name) or _SECRET_FOLDER.hold(name) for name in relative_folder.split("/"))


def is_secret_place(path: str) -> bool:
    """Say whether a path lies in a folder of secrets, wherever a source begins. Whatever is there is never read."""
    return _SECRET_PLACE.search(path) is not None or any(_SECRET_FOLDER.hold(name) for name in path.split("/"))


def is_noise(name: str) -> bool:
    """Say whether a file of this name is none of the user's own: hidden, a lock, half a download."""
    return _NOISE_FILE.hold(name)


def is_secret(name: str) -> bool:
    """Say whether a file of this name holds keys or passwords. Whatever it is, it is never read."""
    return _SECRET_FILE.hold(name)


def is_mostly_holes(stat: Stat) -> bool:
    """Say whether nearly nothing of a large file is on the disk: reading it would read zeros for hours."""
    if stat.allocated is None or stat.allocated >= stat.size:
        return False
    return stat.allocated * _HOLES_SHARE < stat.size or stat.size - stat.allocated > _HOLES_BYTES


def reading_of(fingerprint: str) -> str:
    """Return the part of a rules' fingerprint that says how documents are read; empty where it does not say."""
    return fingerprint.partition(".")[2]


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: re.Pattern[str]
    leaves_out: bool

    def matches(self, path: str) -> bool:
        """Say whether the name itself is meant. Folders on the way were judged before, each for itself, as git does."""
        if self.regex.search(path) is None:  # nearly always, and much faster than asking for all matches
            return False
        return any(_is_of_the_name(match, path) for match in self.regex.finditer(path))


def _is_of_the_name(match: re.Match[str], path: str) -> bool:
    if match.groupdict().get(_FOLDER_MARK) is not None:
        return match.end(_FOLDER_MARK) == len(path)
    # `docs/**` means what is in docs; pathspec also matches the slash behind the folder's own name.
    # A folder within another of the same name is in it all the same.
    return not (path.endswith("/") and match.end() == len(path)) or match.re.search(path[:-1]) is not None


@dataclass(frozen=True, slots=True)
class _Layer:
    """Patterns of one place, last first; `prefix` is the folder they hold in, with a slash behind, or empty."""

    prefix: str
    patterns: tuple[_Pattern, ...]

    def verdict(self, path: str) -> bool | None:
        """Return True to leave out, False to take back in, None where no pattern speaks."""
        if not self.patterns or not path.startswith(self.prefix):
            return None
        below = path[len(self.prefix) :]
        for pattern in self.patterns:
            if pattern.matches(below):
                return pattern.leaves_out
        return None


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in one folder of a source; immutable. Paths are relative to the source, with `/`.

    The last layer that speaks wins: the built-in list, then the rule files from the root down, then the settings'
    own `ignore`. Secrets and kbsync's own data cannot be taken back in. A folder that is left out takes everything
    below it along, so judge folders from the root down and stop at the first that is left out.
    """

    fingerprint: str
    # The source's own folder; secret where it lies in a folder of secrets itself.
    root: str
    is_secret: bool
    own_paths: frozenset[tuple[int, int]]
    too_large_bytes: int
    include: _Layer
    named: _Layer
    settings: _Layer
    folders: tuple[_Layer, ...] = ()

    def judge_file(self, relative_path: str, stat: Stat) -> Reason | None:
        """Return why a path that is no folder is left out, None where it is to be indexed."""
        name = relative_path.rpartition("/")[2]
        if (stat.device, stat.inode) in self.own_paths:
            return Reason.IGNORED
        if stat.kind == "symlink":
            return Reason.SYMLINK
        if stat.kind != "file":
            return Reason.SPECIAL
        if self.is_secret or _SECRET_FILE.hold(name) or (name == "config" and self._is_of_git(relative_path)):
            return Reason.SECRET
        if self._left_out(relative_path, noise=_NOISE_FILE.hold(name)):
            return Reason.IGNORED
        if self.include.patterns and not self._included(relative_path):
            return Reason.IGNORED
        kind = type_of(relative_path)
        if kind is None and not self._taken_as_text(relative_path):
            return Reason.UNSUPPORTED
        if stat.cloud_only:
            return Reason.CLOUD_ONLY
        if stat.size == 0:
            return Reason.EMPTY
        if stat.size > self.too_large_bytes and is_mostly_holes(stat):
            return Reason.TOO_LARGE
        if stat.size > self.too_large_bytes and kind is not None and kind not in UNBOUNDED_TYPES:
            return Reason.TOO_LARGE
        return None

    def judge_folder(self, relative_path: str, stat: Stat) -> Reason | None:
        """Return why a folder is not entered, None where it is."""
        name = relative_path.rpartition("/")[2]
        if (stat.device, stat.inode) in self.own_paths:
            return Reason.IGNORED
        if self.is_secret or _SECRET_FOLDER.hold(name) or _SECRET_PLACE.search(f"{self.root}/{relative_path}"):
            return Reason.SECRET
        if self._left_out(relative_path + "/", noise=_NOISE_FOLDER.hold(name)):
            return Reason.IGNORED
        return Reason.CLOUD_ONLY if stat.cloud_only else None  # listing it would download the list

    def with_folder_rules(self, relative_folder: str, text: str) -> IgnoreRules:
        """Return these rules with a rule file's text added that lies in a folder (empty for the source's own).

        Lines that are no patterns are passed over, as git does.
        """
        prefix = relative_folder + "/" if relative_folder else ""
        layer = _Layer(prefix, _compiled(text))
        if not layer.patterns:
            return self
        judging, _, reading = self.fingerprint.partition(".")
        return replace(
            self,
            folders=(*self.folders, layer),
            fingerprint=f"{_digest((judging, relative_folder, text))}.{reading}",
        )

    def _is_of_git(self, relative_path: str) -> bool:
        # The address of a repository often has a token in it.
        return f"{self.root}/{relative_path}".endswith("/.git/config")

    def _left_out(self, path: str, *, noise: bool) -> bool:
        for layer in (self.settings, *reversed(self.folders)):
            verdict = layer.verdict(path)
            if verdict is not None:
                return verdict
        return noise

    def _taken_as_text(self, path: str) -> bool:
        """Say whether a file of no known type is read as text: where `include` names its ending or its whole name."""
        return conversion_hint(path) is None and self.named.verdict(path) is True

    def _included(self, path: str) -> bool:
        # `docs/` asks for everything below: here a folder on the way counts too.
        steps = [path, *(path[: at + 1] for at, letter in enumerate(path) if letter == "/")]
        verdicts = [self.include.verdict(step) for step in steps]
        return next((verdict for verdict in verdicts if verdict is not None), False)


@lru_cache(maxsize=64)
def rules_for(
    source: Source, own_paths: frozenset[tuple[int, int]] = frozenset(), too_large_bytes: int = TOO_LARGE_BYTES
) -> IgnoreRules:
    """Build the rules that hold at a source's root. `own_paths`: (device, inode) of kbsync's own data folders.

    Raises ConfigurationError for a pattern that cannot be read.
    """
    for setting, patterns in (("ignore", source.ignore), ("include", source.include)):
        for pattern in patterns:
            _checked(source, setting, pattern)
    judged_by = (
        *(str(_VERSION), str(too_large_bytes), supported_endings()),
        *_SECRET_FILES,
        *_SECRET_FOLDERS,
        *_NOISE_FILES,
        *_NOISE_FOLDERS,
        _SECRET_PLACE.pattern,
        *("include", *source.include, "ignore", *source.ignore),
        # Another way to read a document may succeed where the last one failed.
        *("ocr", source.ocr, "password_file", source.password_file or ""),
    )
    return IgnoreRules(
        fingerprint=f"{_digest(judged_by)}.{source.ocr}",
        root=source.path.rstrip("/"),
        is_secret=is_secret_place(source.path),
        own_paths=own_paths,
        too_large_bytes=too_large_bytes,
        include=_Layer("", _compiled("\n".join(source.include))),
        named=_Layer("", _compiled("\n".join(pattern for pattern in source.include if _names_an_ending(pattern)))),
        settings=_Layer("", _compiled("\n".join(source.ignore))),
    )


def _names_an_ending(pattern: str) -> bool:
    """Say whether a pattern of `include` means files of one ending or name: `*.conf`, `Makefile`; not `docs/`, `*`."""
    last = pattern.rstrip().rpartition("/")[2]
    ending = ending_of(last) or last
    return not pattern.startswith(("!", "#")) and bool(ending) and not any(mark in ending for mark in "*?")


def _checked(source: Source, setting: str, pattern: str) -> None:
    try:
        GitIgnoreSpec.from_lines([pattern])
    except (ValueError, re.error) as error:
        raise ConfigurationError(
            f"The pattern {pattern!r} in `{setting}` of the source {source.path!r} cannot be read: {error}.",
            hint="Write it as a line of a .gitignore file.",
        ) from error


@lru_cache(maxsize=512)
def _compiled(text: str) -> tuple[_Pattern, ...]:
    """Return a rule file's patterns, the last line first."""
    patterns = []
    for line in text.removeprefix("\ufeff").split("\n"):
        try:
            spec = GitIgnoreSpec.from_lines([line.removesuffix("\r")])
        except (ValueError, re.error):
            continue  # git passes over such a line as well
        patterns += [
            _Pattern(pattern.regex, pattern.include)
            for pattern in spec.patterns
            if pattern.include is not None and pattern.regex is not None
        ]
    return tuple(reversed(patterns))


def _digest(parts: Sequence[str]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()
