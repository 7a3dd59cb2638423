"""Traces of T2 that went wrong once, made short: each is played in every run."""

from __future__ import annotations

from tests.faults.trinity_steps import Step

REGRESSIONS: dict[str, tuple[Step, ...]] = {
    # The bytes of a note were moved to the name of a PDF, and stayed indexed as what they were there.
    "text-renamed-to-pdf": (
        Step("fill_folder", (24258, 52600, 41602), "told", 1.1, 1),
        Step("settle", (4859, 48817, 25928), "overflow", 0.4, 1),
        Step("save_atomically", (3815, 33403, 48545), "overflow", 0.4, 1),
        Step("check_out", (47225, 64247, 944), "twice", 3.0, 1),
    ),
    "text-renamed-to-pdf-under-rules": (
        Step("fill_folder", (45589, 41796, 22377), "told", 0.0, 2),
        Step("write", (52911, 62947, 9832), "twice", 0.0, 1),
        Step("remove", (29482, 34763, 21418), "overflow", 1.1, 0),
        Step("write_rules", (63807, 51481, 63764), "told", 30.0, 3),
        Step("rename", (10144, 60208, 28656), "told", 400.0, 2),
        Step("check_out", (43089, 22165, 30290), "twice", 3.0, 2),
    ),
}
