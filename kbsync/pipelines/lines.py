"""Line numbers of a text. Only `\\n` ends a line: not U+2028, not a form feed."""

from __future__ import annotations

from bisect import bisect_right


class Lines:
    """Where the lines of a text begin and end, in characters. Lines count from 1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        place = text.find("\n")
        while place != -1:
            self._starts.append(place + 1)
            place = text.find("\n", place + 1)
        if self._starts[-1] == len(text) and len(self._starts) > 1:
            self._starts.pop()

    def __len__(self) -> int:
        return len(self._starts)

    def start(self, line: int) -> int:
        """Return where a line begins; the one after the last begins at the end of the text."""
        return self._starts[line - 1] if line <= len(self._starts) else len(self.text)

    def end(self, line: int) -> int:
        """Return where a line ends, without its line break."""
        after = self.start(line + 1)
        return after - 1 if after > 0 and self.text[after - 1 : after] == "\n" else after

    def line(self, number: int) -> str:
        return self.text[self.start(number) : self.end(number)]

    def at(self, place: int) -> int:
        """Return the number of the line that a character is in."""
        return bisect_right(self._starts, place)

    def is_blank(self, number: int) -> bool:
        return self.text[self.start(number) : self.end(number)].isspace() or self.start(number) == self.end(number)
