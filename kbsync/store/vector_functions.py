"""The SQL function that compares vectors: sqlite-vec's where it can be loaded, else the same one in Python, slower.

What is written is the same with both. An SQLite without loadable extensions, a package that is missing, older or made
for another machine: none of these is a reason not to search.
"""

from __future__ import annotations

import functools

import apsw

# So much may lie between what the two make of the same vectors: sqlite-vec counts with 32 bits.
_TOLERANCE = 1e-3
_PROBE = "SELECT vec_distance_cosine(x'0000803f00000000', x'0000803f0000803f')"
_PROBED = 1.0 - 0.5**0.5
REMEDY = "Install it again: pip install --force-reinstall sqlite-vec; then restart kbsync."


def prepare(connection: apsw.Connection) -> None:
    """Give a connection `vec_distance_cosine(a, b)`, for two vectors of as many float32 each."""
    if missing() is None:
        _load(connection)
    else:
        connection.create_scalar_function("vec_distance_cosine", _distance, 2, deterministic=True)


@functools.cache
def missing() -> str | None:
    """Return why sqlite-vec cannot be used, with the remedy; None where it can. Found out once a process."""
    connection = apsw.Connection(":memory:")
    try:
        _load(connection)
        probed = connection.execute(_PROBE).get
    except (ImportError, AttributeError, OSError, apsw.Error) as error:
        return _told(str(error) or type(error).__name__)
    finally:
        connection.close()
    if not isinstance(probed, float) or abs(probed - _PROBED) > _TOLERANCE:
        return _told("it gives wrong results")
    return None


def loaded_version() -> str:
    """Return sqlite-vec's version, where it can be used."""
    connection = apsw.Connection(":memory:")
    try:
        _load(connection)
        return str(connection.execute("SELECT vec_version()").get)
    finally:
        connection.close()


def _told(why: str) -> str:
    return (
        f"The SQLite extension sqlite-vec cannot be used ({why}): search by meaning goes on without it, slower. "
        f"{REMEDY}"
    )


def _load(connection: apsw.Connection) -> None:
    import sqlite_vec

    connection.enable_load_extension(True)
    try:
        connection.load_extension(sqlite_vec.loadable_path())
    finally:
        connection.enable_load_extension(False)


def _distance(*vectors: object) -> float:
    import numpy as np

    one, other = (np.frombuffer(vector, dtype=np.float32) for vector in vectors if isinstance(vector, bytes))
    return 1.0 - float(one @ other) / (float(np.linalg.norm(one)) * float(np.linalg.norm(other)))
