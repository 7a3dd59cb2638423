"""Wheel and source archive hold what a test run from the checkout would never miss; the wheel runs elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from kbsync.embed import model_files
from kbsync.pipelines import model_catalogue
from tests.fakes.eventually import eventually
from tests.meta.checkout import ROOT, TOP_LEVEL, project_files, version

# Where man, the shells and packagers look for what is no code.
SHARED = {
    "share/man/man1/kbsync.1": "packaging/man/kbsync.1",
    "share/bash-completion/completions/kbsync": "packaging/completions/kbsync.bash",
    "share/zsh/site-functions/_kbsync": "packaging/completions/_kbsync",
    "share/fish/vendor_completions.d/kbsync.fish": "packaging/completions/kbsync.fish",
    "share/kbsync/systemd/kbsync.service": "systemd/kbsync.service",
    "share/kbsync/launchd/local.kbsync.plist": "launchd/local.kbsync.plist",
}
NOTICES = "packaging/NOTICES.md"


def built(target: str, checkout: Path, folder: Path) -> Path:
    """Build a wheel or an sdist from a checkout, or what a source archive held."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the source archive unpacks to."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("sdist", ROOT, folder)) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    return folder / "unpacked" / f"kbsync-{version()}"


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_wheel_holds_every_file_of_the_program_and_nothing_else(wheel: Path) -> None:
    ours = {str(path.relative_to(ROOT)) for path in project_files() if path.is_relative_to(ROOT / "kbsync")}
    packed = {name for name in members(wheel) if not re.match(r"[^/]+\.(dist-info|data)/", name)}
    assert packed == ours
    assert "kbsync/py.typed" in packed
    assert any(name.endswith(".sql") for name in packed)


def test_wheel_brings_the_man_page_completions_and_units(wheel: Path) -> None:
    prefix = f"kbsync-{version()}.data/data/"
    packed = {name.removeprefix(prefix): text for name, text in members(wheel).items() if name.startswith(prefix)}
    assert packed == {place: (ROOT / source).read_bytes() for place, source in SHARED.items()}


def test_wheel_has_the_version_of_the_file_and_both_commands(wheel: Path) -> None:
    info = f"kbsync-{version()}.dist-info"
    told, commands = members(wheel)[f"{info}/METADATA"].decode(), members(wheel)[f"{info}/entry_points.txt"].decode()
    assert f"\nVersion: {version()}\n" in told
    assert "kbsync = kbsync.__main__:main" in commands
    assert "kb = kbsync.__main__:main" in commands
    assert "[docling]\nkbsync = kbsync.pipelines.packaged_models" in commands, "Docling would not find the models"


def test_wheel_and_source_archive_bring_the_licence_and_the_notices(wheel: Path, unpacked: Path) -> None:
    for name in ("LICENSE", NOTICES):
        packed = members(wheel)[f"kbsync-{version()}.dist-info/licenses/{name}"]
        assert packed == (unpacked / name).read_bytes() == (ROOT / name).read_bytes()


def test_source_archive_holds_every_file_of_the_project(unpacked: Path) -> None:
    packed = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    ours = {str(path.relative_to(ROOT)) for path in project_files()}
    assert packed - {"PKG-INFO"} == ours
    assert {name.split("/")[0] for name in packed} - TOP_LEVEL == {"PKG-INFO", ".ci", ".gitignore"}


def test_wheel_of_the_source_archive_is_the_wheel_of_the_checkout(wheel: Path, unpacked: Path, tmp_path: Path) -> None:
    assert members(built("wheel", unpacked, tmp_path)) == members(wheel)


def test_version_changelog_and_metadata_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    newest = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert newest == version()
    assert any(f":: Python :: {project['requires-python'].removeprefix('>=')}" in one for one in project["classifiers"])


def noticed() -> dict[str, tuple[str, str, str]]:
    """Return (package, file, licence) by model, as the notices' first table tells."""
    rows = re.findall(r"^\| (.*) \|$", (ROOT / NOTICES).read_text(), re.MULTILINE)
    table = [row.split(" | ") for row in rows]
    return {row[0]: (row[1], row[2], row[3]) for row in table if len(row) == 5 and row[0] != "model"}


def test_notices_name_every_packaged_model_with_its_licence() -> None:
    told = noticed()
    embedder = model_files.packaged_model()
    catalogue = {model.name: (model.path, model.license) for model in model_catalogue.packaged_models()}
    weights = os.path.join(embedder.folder, "model.safetensors")
    catalogue[embedder.name] = (weights, model_files.license_of(embedder))
    assert {name: said[2].casefold() for name, said in told.items()} == {
        name: license_.casefold() for name, (_, license_) in catalogue.items()
    }
    for name, (package, pattern, _) in told.items():
        path = catalogue[name][0]
        assert path is not None
        assert Path(path).match(pattern), name
        assert Path(path).is_relative_to(str(metadata.distribution(package).locate_file(package.replace("-", "_"))))


def test_notices_say_of_each_package_what_it_says_itself() -> None:
    text = (ROOT / NOTICES).read_text()
    told = dict(re.findall(r"^\| ([\w-]+) \| ([\w.-]+) \|$", text.partition("own code")[2], re.MULTILINE))
    told.pop("package")
    assert set(told) == {package for package, _, _ in noticed().values()}
    for package, license_ in told.items():
        said = metadata.metadata(package)
        assert license_ in [*(said.get_all("License-Expression") or ()), *(said.get_all("License") or ())], package


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The wheel in an environment of its own. The libraries are the test environment's; the checkout is not there."""

    folder: Path
    home: Path

    @property
    def environment(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KBSYNC_", "PYTHON"))}
        return kept | {"KBSYNC_HOME": str(self.home), "KBSYNC_HTTP__PORT": "0", "PYTHONUTF8": "1"}

    def run(self, *arguments: str, command: str = "kbsync", code: int = 0) -> str:
        outcome = subprocess.run(
            [self.folder / "bin" / command, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert outcome.returncode == code, outcome.stdout + outcome.stderr
        return outcome.stdout

    def json(self, *arguments: str) -> dict[str, Any]:
        answer = json.loads(self.run(*arguments, "--json"))
        assert isinstance(answer, dict)
        return answer

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Run the daemon, which must end in good order."""
        with (self.folder / "messages").open("w") as messages:
            process = subprocess.Popen(
                [self.folder / "bin" / "kbsync", "run"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                start_new_session=True,
            )
        try:
            eventually(lambda: bool(self._has_model(process)), within_s=100, every_s=0.5)
            yield
        finally:
            process.terminate()
            code = process.wait(20)
        assert code == 0, (self.folder / "messages").read_text()

    def _has_model(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, (self.folder / "messages").read_text()
        try:
            return bool(self.json("status")["model_ready"])
        except AssertionError:
            return False  # it does not answer yet


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    base = tmp_path_factory.mktemp("else where").resolve()
    folder = base / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, cwd=base)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    options = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *options], check=True, cwd=base, capture_output=True)
    # A folder named so is searched, but what an editable installation put there to lead to a checkout is not followed.
    (site,) = folder.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries) + "\n")
    return Elsewhere(folder, base / "home")


def test_the_checkout_is_out_of_reach_elsewhere(elsewhere: Elsewhere) -> None:
    code = "import kbsync, importlib.util as u; print(kbsync.__file__, u.find_spec('tests'), sep='\\n')"
    used, tests = elsewhere.run("-c", code, command="python").splitlines()
    assert Path(used).is_relative_to(elsewhere.folder)
    assert tests == "None"
    assert elsewhere.run("--version").strip() == version()


def test_wheel_runs_adds_and_searches_elsewhere(elsewhere: Elsewhere, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "travel.md").write_text("# Refunds\n\nWe pay back a cancelled trip within ten days.\n")
    (tmp_path / "kettle.md").write_text("# Kettle\n\nThe kettle must be descaled with vinegar.\n")
    elsewhere.run("sources", "add", str(notes))
    with elsewhere.daemon():
        added = elsewhere.json("add", str(tmp_path / "kettle.md"))["added"]
        assert [Path(document["path"]).name for document in added] == ["kettle.md"]
        elsewhere.run("wait", "--timeout", "90")
        answer = elsewhere.json("search", "how do I get my money for a journey that did not happen")
        assert answer["mode"] == "hybrid"
        assert Path(answer["hits"][0]["path"]).name == "travel.md"
        assert "vinegar" in elsewhere.run("search", "descaling", command="kb")


def test_purging_leaves_nothing_of_a_home_in_which_it_ran(elsewhere: Elsewhere, tmp_path: Path) -> None:
    if not elsewhere.home.exists():
        elsewhere.run("add", "--note", "The spare key hangs behind the fuse box.")
    home = shutil.copytree(elsewhere.home, tmp_path / "home", symlinks=True)
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KBSYNC_HOME": str(home)}
    command = [str(ROOT / "packaging" / "uninstall.sh"), "--purge", "--yes"]
    outcome = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert list(tmp_path.rglob("*")) == [], outcome.stderr
