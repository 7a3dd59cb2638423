"""Measures kbsync against the thing itself and prints what came out.

python -m tests.bench [--only scan,freshness] [--files N] [--json FILE]
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

import structlog

from tests.bench import backup, documents, embedding, freshness, idle, ingestion, reindexing, scan, searching, tree
from tests.bench.figures import Figure, as_json, machine, table

_UNITS = {"ratio": "x (over 1: faster than bare)", "second": "texts/s", "texts": "texts"}


def embedding_figures() -> list[Figure]:
    """Return the batcher's figures against bare encode."""
    return [
        Figure(f"embedding: {name.removeprefix('embedding_')}", _UNITS.get(name.rpartition("_")[2], ""), (value,))
        for name, value in embedding.measure().items()
    ]


def _dropped(_logger: object, _name: str, _event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    raise structlog.DropEvent


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--only", default="embedding,scan,freshness,ingestion,documents", help="which, with commas between"
    )
    parser.add_argument(
        "--files",
        type=int,
        help=f"how many files the tree has ({scan.FILES}, backup: {backup.DOCUMENTS}, "
        f"tree: {tree.FILES}, idle: {idle.FILES})",
    )
    parser.add_argument("--seconds", type=float, help=f"how long idle is looked at ({idle.SECONDS:.0f})")
    parser.add_argument("--json", metavar="FILE", help="write all figures there too")
    options = parser.parse_args(arguments)
    benches: dict[str, Callable[[], list[Figure]]] = {
        "embedding": embedding_figures,
        "scan": lambda: scan.measure(options.files or scan.FILES),
        "freshness": freshness.measure,
        "ingestion": ingestion.measure,
        "documents": documents.measure,
        "reindex": reindexing.measure,
        "search": searching.measure,
        "backup": lambda: backup.measure(options.files or backup.DOCUMENTS),
        "idle": lambda: idle.measure(options.files or idle.FILES, options.seconds or idle.SECONDS),
        "tree": lambda: tree.measure(options.files or tree.FILES),
    }
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(benches):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(benches)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a daemon that was started ends as well
    structlog.configure(processors=[_dropped])
    print(machine(), flush=True)
    figures = []
    for name in wanted:
        found = benches[name]()
        figures += found
        print(f"\n{table(found)}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(as_json(figures) + "\n")


if __name__ == "__main__":
    main()
