"""Turns scanned pages upright before they are read: OCR makes word salad of a page that lies on its side.

Docling cannot do it. A small picture is read at each quarter turn; the turn that reads best is the right one.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from io import BytesIO
from typing import Any

from docling.utils.locks import pypdfium2_lock
from PIL import Image, ImageOps

from kbsync.pipelines.long_pages import has_room_for_text, middle
from kbsync.pipelines.packaged_models import CHARACTERS_OF_A_TEXT_PAGE, ocr_model_path

_TURNS = (0, 90, 180, 270)
_SMALL_PICTURE = 1200  # pixels of its longer side
_SURE = 0.9  # a page that reads so well is not tried at another turn
_WITHOUT_PASSWORD = 3  # pdfium's FPDF_REMOVE_SECURITY
_CLEARLY_BETTER = 1.2  # a page is turned only where it reads so much better


def upright_pdf(path: str, password: str | None, threads: int) -> BytesIO | None:
    """Return a copy of a PDF with its pages of pictures turned upright; None where there is nothing to turn."""
    import pypdfium2

    with pypdfium2_lock, pypdfium2.PdfDocument(path, password=password) as pdf:
        turned = False
        likely = 0
        for number in range(len(pdf)):
            page = pdf[number]
            picture = _picture(page)
            if picture is not None:
                likely = turn_of(picture, threads, likely)
                if likely:
                    page.set_rotation((page.get_rotation() + likely) % 360)
                    turned = True
            page.close()
        if not turned:
            return None
        copy = BytesIO()
        pdf.save(copy, flags=_WITHOUT_PASSWORD)
    copy.seek(0)
    return copy


def upright_image(path: str, threads: int) -> BytesIO | None:
    """Return a copy of a picture turned upright, None where it is already or holds more than one page."""
    with Image.open(path) as image:
        if getattr(image, "n_frames", 1) != 1:
            return None
        dpi = image.info.get("dpi")
        # What the camera says of its own position is Docling's to follow; here it comes before the turn.
        whole = ImageOps.exif_transpose(image).convert("RGB")
    if not has_room_for_text(*whole.size):
        return None
    left, top, right, bottom = middle(*whole.size)
    small = whole.crop((int(left), int(top), int(right), int(bottom)))
    small.thumbnail((_SMALL_PICTURE, _SMALL_PICTURE))
    turn = turn_of(small, threads, 0)
    if not turn:
        return None
    copy = BytesIO()
    whole.rotate(-turn, expand=True).save(copy, "PNG", **({"dpi": dpi} if dpi else {}))
    copy.seek(0)
    return copy


def turn_of(picture: Image.Image, threads: int, likely: int) -> int:
    """Return by how many degrees, clockwise, a picture must be turned to be read. `likely` is tried first."""
    best, best_score, score_as_is = 0, 0.0, None
    for turn in sorted(_TURNS, key=lambda turn: (turn != likely, turn)):
        read = _legibility(picture.rotate(-turn, expand=True), threads)
        if read is None:  # lines are seen at every turn, so there are none
            return 0
        score, confidence = read
        if confidence >= _SURE:
            return turn
        if turn == 0:
            score_as_is = score
        if score > best_score:
            best, best_score = turn, score
    return best if best_score > _CLEARLY_BETTER * (score_as_is or 0.0) else 0


def _picture(page: Any) -> Image.Image | None:
    """Return a small picture of a page without text of its own, None for any other page."""
    text_page = page.get_textpage()
    text = text_page.get_text_range()
    text_page.close()
    if len("".join(text.split())) >= CHARACTERS_OF_A_TEXT_PAGE:
        return None
    width, height = page.get_size()
    if not has_room_for_text(width, height):
        return None
    left, top, right, bottom = middle(width, height)
    bitmap = page.render(
        scale=_SMALL_PICTURE / max(right - left, bottom - top), crop=(left, height - bottom, width - right, top)
    )
    picture: Image.Image = bitmap.to_pil().convert("RGB")
    bitmap.close()
    return picture


def _legibility(picture: Image.Image, threads: int) -> tuple[float, float] | None:
    """Return how much text is read in lines that lie flat, by its confidence, and the confidence of all text.

    None where no line of text is seen.

    Lines that stand upright are turned by the engine itself, so they say nothing for this turn.
    """
    import numpy as np

    found = _engine(threads)(np.asarray(picture)[:, :, ::-1], use_det=True, use_cls=False, use_rec=True)
    if found is None or found.boxes is None:
        return None
    flat = total = 0.0
    for corners, text, confidence in zip(found.boxes.tolist(), found.txts, found.scores, strict=True):
        xs, ys = [corner[0] for corner in corners], [corner[1] for corner in corners]
        total += len(text)
        if max(xs) - min(xs) >= max(ys) - min(ys):
            flat += len(text) * confidence
    return flat, flat / total if total >= CHARACTERS_OF_A_TEXT_PAGE else 0.0


@lru_cache(1)
def _engine(threads: int) -> Any:
    # It writes in colour on stderr unless its logger has a handler.
    logging.getLogger("RapidOCR").addHandler(logging.NullHandler())
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "warning",
            "Det.model_path": ocr_model_path("det"),
            "Cls.model_path": ocr_model_path("cls"),
            "Rec.model_path": ocr_model_path("rec"),
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
        }
    )
