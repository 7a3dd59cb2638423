"""Makes the data folder of an earlier version: run it with that version's own code, from a checkout of it.

`git archive COMMIT | tar -x -C DIR; cd DIR; python MAKE_DATA OUTPUT.zip`. What lies here was made so from the commits
5df6087 (schema 2), ba56280 (schema 4) and 01e84ef (schema 5). It asks only for what was the same in all of them.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, ".")

from tests.fakes.simulated_engine import NOTES, SimulatedEngine, World  # noqa: E402  # the version's own

# Files that are there at the end; `tests/knowledge_base/test_earlier_versions.py` puts the same ones in place.
FILES = {
    "travel.md": "# Travel\n\n## Refunds\n\nA cancelled trip is paid back within ten days.\n",
    "行李/锁.md": "# 行李箱\n\n密码锁的号码写在说明书里。\n",
    "deploy.sh": "#!/bin/bash\n# Restarts the beacon.\nrestart_beacon() {\n    systemctl restart beacon\n}\n",
    "rivers.csv": "river,length\nElbe,1094\nLoire,1006\n",
    "changed.md": "# Kettle\n\nThe kettle is copper now.\n",
    "reeds.pdf": "%PDF-1.7 the heron stands\fstill in the reeds",
    "older.doc": "a format that nothing reads",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        world = World.new(home)
        world.configure(NOTES)
        for name, text in FILES.items():
            world.fs.write(f"{NOTES}/{name}", text.encode())
        world.fs.write(f"{NOTES}/changed.md", b"# Kettle\n\nThe kettle was tin.\n")
        world.fs.write(f"{NOTES}/gone.md", b"# Gone\n\nThe walrus left.\n")
        world.fs.write("/simulated/desk/brought.md", b"# Brought\n\nA quince by hand.\n")
        engine = SimulatedEngine(world)
        engine.rescan()
        engine.add("/simulated/desk/brought.md")
        engine.note("A note on medlars.", "Medlars")
        engine.write(f"{NOTES}/changed.md", FILES["changed.md"])
        engine.remove(f"{NOTES}/gone.md")
        for _ in range(4):
            engine.rescan()
        engine.close()
        data = home / "data"
        database = sqlite3.connect(data / "kb.sqlite3")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in sorted(data.rglob("*")):
                if path.is_file() and path.name != "kb.lock":
                    member = zipfile.ZipInfo(str(path.relative_to(data)))
                    archive.writestr(member, path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
