"""Tries what takes seconds to import or crashes a process, in a program of its own: `python -m ... KIND ARGUMENTS`.

It prints one line of JSON behind a mark; whatever the libraries print is passed over.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from kbsync.errors import KbsyncError
from kbsync.interfaces.doctor.finding import Unclear
from kbsync.interfaces.doctor.patience import Ran, ran
from kbsync.interfaces.doctor.subject import Subject

_MARK = "KBSYNC-TRIAL "
# An import of OpenCV takes a fifth of a second, of Docling 10 s, loading models and reading a page half a minute.
LIMITS_S = {"opencv": 20.0, "languages": 60.0, "embed": 150.0, "convert": 240.0}
_SENTENCE = "The larch drops its needles in autumn"


def tried(kind: str, subject: Subject, **arguments: object) -> dict[str, Any]:
    """Run a trial in a child and return its answer. Raises Unclear where it gave none."""
    command = [subject.executable, "-B", "-P", "-W", "ignore", "-m", __name__, kind, json.dumps(arguments)]
    quiet = {"HF_HUB_OFFLINE": "1", "ORT_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}
    return answer_in(ran(command, LIMITS_S[kind], {**subject.environ, **quiet}))


def answer_in(child: Ran) -> dict[str, Any]:
    """Return what a child answered. Raises Unclear."""
    for line in reversed(child.output.splitlines()):
        if line.startswith(_MARK):
            answer: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return answer
    said = child.errors.strip().splitlines()
    why = said[-1] if said else f"it ended with {child.code}"
    raise Unclear(f"A program that tries it gave no answer: {why}.")


def opencv() -> dict[str, Any]:
    """Import OpenCV: say where from, which version, or why it cannot be."""
    import importlib.util

    spec = importlib.util.find_spec("cv2")
    answer: dict[str, Any] = {"origin": None if spec is None else spec.origin}
    try:
        import cv2
    except Exception as error:  # noqa: BLE001 (of a native library anything may come; it is the answer)
        return {**answer, "error": str(error) or type(error).__name__}
    return {**answer, "version": getattr(cv2, "__version__", None)}


def languages(languages: list[str]) -> dict[str, Any]:
    """Say whether OCR reads the first of these languages."""
    from kbsync.pipelines.docling_converter import reads_language

    return {"reads": reads_language(languages[0])}


def embed() -> dict[str, Any]:
    """Load the embedding model where it would run, and embed a sentence."""
    from kbsync.compose import configured_model
    from kbsync.config.locations import locate
    from kbsync.config.settings import load_settings
    from kbsync.embed.embedder import checked
    from kbsync.embed.sentence_transformer import SentenceTransformerDevice, device_info, devices_there

    settings = load_settings(locate(os.environ).config_file)
    setting = settings.models.device
    names, notice = devices_there(setting if isinstance(setting, str) else list(setting))
    if notice is not None:
        return {"error": notice, "remedy": 'Set device = "auto" under [models] in config.toml.'}
    model = configured_model(settings)
    device = SentenceTransformerDevice(model, names[0])
    checked(device.encode([_SENTENCE], query=False), 1, model.dimension)
    info = device_info(names)
    memory = "" if info.memory is None else f", {info.memory / 1e9:.0f} GB"
    return {"told": f"{model.name} embeds a sentence on {device.name} ({info.name}{memory})."}


def convert() -> dict[str, Any]:
    """Load the models for documents and read a page of PDF, which lies in a temporary folder meanwhile."""
    from kbsync.compose import configured_model, docling_models_folder
    from kbsync.config.locations import locate
    from kbsync.config.settings import load_settings
    from kbsync.embed.token_counter import HuggingFaceCounter
    from kbsync.model import ConversionRequest
    from kbsync.pipelines import docling_converter

    places = locate(os.environ)
    settings = load_settings(places.config_file)
    model, own = configured_model(settings), docling_models_folder(settings, places)
    content = page_of(_SENTENCE)
    with tempfile.TemporaryDirectory(prefix="kbsync-doctor-") as folder:
        path = os.path.join(folder, "page.pdf")
        with open(path, "wb") as file:
            file.write(content)
        request = ConversionRequest(
            path=path,
            name="page.pdf",
            type="pdf",
            content_hash=hashlib.sha256(content).hexdigest(),
            ocr="auto",
            languages=settings.ocr.languages,
            password=None,
            limits=settings.chunk_limits(model.max_tokens),
            tokenizer_json=model.tokenizer_json,
            threads=1,
            kept=None,
            models=own,
        )
        found = docling_converter.convert(request, HuggingFaceCounter)
    text = " ".join(piece.text for piece in found.parsed.pieces)
    if "larch" not in text:
        return {"error": f"A page of PDF was read as {text!r}, and says {_SENTENCE!r}."}
    return {"told": "A page of PDF is read."}


def page_of(sentence: str) -> bytes:
    """Return a PDF of one page with a sentence on it."""
    drawn = f"BT /F1 18 Tf 72 720 Td ({sentence}) Tj ET".encode()
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    page, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(page))
        page += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    begins, count = len(page), len(objects) + 1
    page += b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table)
    return page + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, begins)


_TRIALS: dict[str, Callable[..., dict[str, Any]]] = {
    "opencv": opencv,
    "languages": languages,
    "embed": embed,
    "convert": convert,
}


def main(kind: str, arguments: str) -> None:
    """Try it, and print the answer; an error that was foreseen is one."""
    try:
        answer = _TRIALS[kind](**json.loads(arguments))
    except KbsyncError as error:
        answer = {"error": error.message, "remedy": error.hint}
    sys.stdout.write("\n" + _MARK + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
