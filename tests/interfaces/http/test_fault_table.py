"""The table of faults names tests that there are, and says of every other row why it has none."""

from __future__ import annotations

import re

import pytest

from tests.interfaces.http.fault_table import FAULTS, Fault
from tests.meta.checkout import ROOT


def test_every_fault_is_in_the_table_once_in_order() -> None:
    assert [fault.id for fault in FAULTS] == [f"A{number:02}" for number in range(1, 21)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_each_fault_has_tests_that_exist_or_a_reason(fault: Fault) -> None:
    assert fault.tests or fault.remark
    for test in fault.tests:
        file, _, function = test.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {function}\(", text, re.MULTILINE), test
