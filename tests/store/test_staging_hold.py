"""Staged copies stay while a backup copies them, and go by themselves afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbsync.store.stored_files import StoredFiles


@pytest.fixture
def stored(tmp_path: Path) -> StoredFiles:
    for name in ("staging", "documents"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("a")
        (tmp_path / name / "b.md").write_text("b")
    return StoredFiles(str(tmp_path / "staging"), str(tmp_path / "documents"))


def there(stored: StoredFiles) -> list[str]:
    return sorted(path.name for path in Path(stored.staging_dir).iterdir())


def test_a_staged_copy_goes_at_once_while_nobody_holds_it(stored: StoredFiles) -> None:
    stored.discard(f"{stored.staging_dir}/a.md")
    assert there(stored) == ["b.md"]


def test_it_waits_until_the_hold_ends_also_where_that_fails(stored: StoredFiles) -> None:
    def fail() -> None:
        with stored.hold.held():
            stored.discard(f"{stored.staging_dir}/a.md")
            assert there(stored) == ["a.md", "b.md"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert there(stored) == ["b.md"]
    stored.discard(f"{stored.staging_dir}/b.md")
    assert there(stored) == []


def test_what_the_backup_does_not_need_goes_as_soon_as_that_is_known(stored: StoredFiles) -> None:
    with stored.hold.held():
        stored.discard(f"{stored.staging_dir}/a.md")
        stored.discard(f"{stored.staging_dir}/b.md")
        stored.hold.only({"b.md"})
        assert there(stored) == ["b.md"]
        with stored.staging("c.md") as (path, _):
            pass
        stored.discard(path)
        assert there(stored) == ["b.md"]
        stored.hold.all()
        with stored.staging("d.md") as (path, _):
            pass
        stored.discard(path)
        assert len(there(stored)) == 2
    assert there(stored) == []


def test_a_stored_copy_that_is_removed_is_gone_at_once(stored: StoredFiles) -> None:
    with stored.hold.held():
        stored.discard(f"{stored.documents_dir}/a.md")
        assert not Path(stored.documents_dir, "a.md").exists()
