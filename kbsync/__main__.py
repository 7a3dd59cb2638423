"""`python -m kbsync` and the console scripts `kbsync` and `kb`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    if sys.platform == "win32":
        sys.exit("kbsync: Windows is not supported; in its Linux (WSL 2) kbsync runs.")
    from kbsync.interfaces.cli import surroundings

    surroundings.make_whole()
    from kbsync.interfaces.cli.app import app

    try:
        app()
    finally:
        surroundings.end_output()


if __name__ == "__main__":
    main()
