"""What is too long for one piece and has something to repeat: fences, tables, functions, as `part i/n`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from kbsync.pipelines.cutting import Span, cut, measured, paragraphs
from kbsync.pipelines.room import Size


@dataclass(frozen=True, slots=True)
class Frame:
    """What is repeated around each part. `first` stands in place of `before` in the first part and is no longer."""

    before: str = ""
    after: str = ""
    first: str | None = None

    def tokens(self, size: Size) -> int | None:
        """Return what the frame costs, None where it would fill more than half of a piece."""
        before, after = size.measure(self.before), size.measure(self.after)
        if before is None or after is None:
            return None
        tokens = before + after + 2 * size.joint
        return tokens if tokens <= size.tokens // 2 else None


@dataclass(frozen=True, slots=True)
class Part:
    """`start` and `end` are its own characters of the text, without what is repeated. `number` is `i/n`, or None."""

    text: str
    start: int
    end: int
    number: str | None


def parts(text: str, whole: Span, body: Span, frame: Frame, size: Size, most: int) -> Iterator[Part]:
    """Cut `body` at lines, with the frame around each part; where the frame is too long, cut `whole` without it.

    Together the parts cover `whole`. Never more than `most` parts, however long it is.
    """
    tokens = frame.tokens(size)
    if tokens is None or not text[slice(*body)].strip():
        tokens, body, frame = 0, whole, Frame()
    inner = size.less(tokens)
    blocks = measured(text, paragraphs(text, *body), inner)
    spans = list(islice(cut(text, blocks, inner, by_line=True), most))
    for index, (start, end) in enumerate(spans):
        before = frame.first if index == 0 and frame.first is not None else frame.before
        rows = (before, text[start:end].rstrip(), frame.after)
        yield Part(
            "\n".join(row for row in rows if row),
            whole[0] if index == 0 else start,
            whole[1] if index == len(spans) - 1 and len(spans) < most else end,
            f"{index + 1}/{len(spans)}" if len(spans) > 1 else None,
        )
