"""`python -m kbsync` and the console scripts `kbsync` and `kb`."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from kbsync.interfaces.cli import surroundings

    surroundings.make_whole()
    from kbsync.interfaces.cli.app import app

    app()


if __name__ == "__main__":
    main()
