"""What a device's answer must be."""

from __future__ import annotations

import numpy as np
import pytest

from kbsync.embed.embedder import checked, mean_of_windows
from kbsync.errors import FailFile
from kbsync.reasons import Reason


def test_good_vectors_come_back_with_length_one() -> None:
    rows = checked(np.array([[3, 4], [0, -2]], dtype=np.float32), 2, 2)

    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, np.array([[0.6, 0.8], [0.0, -1.0]]), atol=1e-6)


@pytest.mark.parametrize(
    "vectors",
    [
        pytest.param([[1, 0]], id="a row short"),
        pytest.param([[1], [1]], id="a column short"),
        pytest.param([1, 0], id="no rows"),
        pytest.param([[1, 0], [float("nan"), 0]], id="NaN"),
        pytest.param([[1, 0], [float("-inf"), 0]], id="infinity"),
        pytest.param([[1, 0], [3e38, 3e38]], id="overflow"),
        pytest.param([[1, 0], [0, 0]], id="zero"),
    ],
)
def test_useless_vectors_are_refused(vectors: list[list[float]]) -> None:
    with pytest.raises(FailFile) as caught:
        checked(np.array(vectors, dtype=np.float32), 2, 2)

    assert caught.value.reason is Reason.MODEL


def test_the_mean_has_length_one() -> None:
    np.testing.assert_allclose(mean_of_windows(np.eye(2, dtype=np.float32)), [[2**-0.5, 2**-0.5]], atol=1e-6)


def test_windows_that_cancel_out_are_refused() -> None:
    with pytest.raises(FailFile):
        mean_of_windows(np.array([[1, 0], [-1, 0]], dtype=np.float32))
