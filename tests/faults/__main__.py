"""Reads every bad document and prints the table of what became of it, with the time and memory that it took.

python -m tests.faults [--only B08,B29] [--quick]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import structlog

from tests.faults.bad_documents import BAD_DOCUMENTS, BadDocument
from tests.faults.ground import Ground, Outcome


def line_of(row: BadDocument, outcome: Outcome) -> str:
    """Return one line of the table: memory in MB, this process' above what it had before, and the child's in all."""
    figures = f"{outcome.seconds:6.1f} {outcome.own_bytes / 1e6:6.0f} {outcome.child_bytes / 1e6:6.0f}"
    wrong = f"  WRONG: {'; '.join(outcome.wrong)}" if outcome.wrong else ""
    return f"{row.id:4} {row.what:29} {' or '.join(row.expected):62} {outcome.state:25} {figures}{wrong}"


def main(arguments: list[str] | None = None) -> int:
    """Return 1 where a document ended otherwise than it may."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", help="rows by id, with commas between")
    parser.add_argument("--quick", action="store_true", help="without those that take a minute or gigabytes")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",") if options.only else [row.id for row in BAD_DOCUMENTS]
    rows = [row for row in BAD_DOCUMENTS if row.id in wanted and not (options.quick and row.slow)]
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    bad = 0
    print(f"{'id':4} {'what':29} {'may end as':62} {'ended as':25} {'s':>6} {'MB':>6} {'child':>6}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kbsync-bad-documents-") as folder, Ground(Path(folder)) as ground:
        for row in rows:
            outcome = ground.read(row)
            bad += bool(outcome.wrong)
            print(line_of(row, outcome), flush=True)
    print(f"{len(rows)} documents, {bad} ended otherwise than they may")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
