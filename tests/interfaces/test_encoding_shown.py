"""What encoding a file was in is seen by whoever asks about its document."""

from __future__ import annotations

import json
import os

from tests.interfaces.conftest import Service


def test_documents_show_names_the_encoding(service: Service) -> None:
    path = service.folder / "memo.txt"
    path.write_bytes("牛乳と卵を買うこと。\n歯医者は木曜日の三時。\n".encode("shift_jis"))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    service.settle()
    number = json.loads(service.command("why", str(path), "--json").stdout)["document_id"]
    assert json.loads(service.command("documents", "show", str(number), "--json").stdout)["metadata"] == {
        "encoding": "cp932"
    }
