"""Encodings that old text files are in, by the names that the settings take. Pure."""

from __future__ import annotations

import codecs


def legacy(name: str) -> str:
    """Return Python's name of an encoding that has ASCII in its lower half and letters of its own above.

    Raises ValueError for any other.
    """
    try:
        known = codecs.lookup(name).name
        fits = b"az".decode(known) == "az" and not b"\xe1\xe2".decode(known).isascii()
    except (LookupError, UnicodeError):
        fits = False
    if not fits or known in ("charmap", "unicode-escape", "raw-unicode-escape"):
        raise ValueError(f"{name} is no legacy encoding such as shift_jis, gb18030, big5, euc_kr, koi8_r or cp1252")
    return known
