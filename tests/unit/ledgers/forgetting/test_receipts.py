"""A receipt of forgetting: what it says, what it doesn't hold, and who may trust it."""

import asyncio
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexus.errors import CareError
from nexus.home import Home
from nexus.ledgers import backup, forgetting, transfer
from nexus.ledgers.forgetting import Folder, Receipt, Report, removal
from nexus.ledgers.forgetting.traces import Words
from nexus.ledgers.memory import seals
from unit.ledgers.forgetting.scene import Scene

_SECRET = "Quillfeather keeps the platypus in Wollongong"


async def _tell(scene: Scene) -> None:
    await scene.event("evt_1", _SECRET)
    await scene.event("evt_2", "Nothing of the kind was said here.")
    await scene.fact("fact_1", f"{_SECRET}, they say.", source_event_id="evt_1")
    await scene.fact("fact_2", "Water boils at a hundred degrees.")
    await scene.observation("obs_1", "fact_1", content="The platypus of Quillfeather is well.")


async def _forget_event(scene: Scene) -> Report:
    target = await scene.find(lambda connection: forgetting.event(connection, "evt_1"))
    report = await forgetting.forget(scene.ledgers, target, actor="test")
    assert report is not None
    return report


def _change(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


async def test_a_receipt_counts_and_says_nothing_of_the_content(scene: Scene) -> None:
    await _tell(scene)
    while await scene.ledgers.memory.write(seals.seal):
        pass
    before = await scene.ledgers.memory.read(seals.head)
    report = await _forget_event(scene)
    receipt = Receipt.read(report.file)
    assert receipt == report.receipt
    assert receipt.removed == {
        "events.events": 1,
        "memory.facts": 1,
        "memory.analysis_runs": 1,
        "memory.observation_facts": 1,
        "memory.summaries": 1,
    }
    assert {name: place.status for name, place in receipt.places.items()} == {
        **dict.fromkeys(("rows", "indexes", "free_pages", "wal", "derived", "vectors"), "clean"),
        **dict.fromkeys(("recordings", "attachments", "files"), "clean"),
        **dict.fromkeys(("engine", "copies"), "none"),
    }
    assert receipt.places["derived"].counts == {"removed": 1, "left": 0}
    assert (receipt.seal_before, receipt.seal_after) == (before, await scene.ledgers.memory.read(seals.head))
    assert receipt.seal_before != receipt.seal_after
    held = report.file.read_text().casefold()
    assert not [word for word in _SECRET.casefold().split() if len(word) > 3 and word in held]
    assert "fact_1" not in held
    assert "evt_1" not in held.replace(f'"target": "{receipt.target}"', "")


async def test_a_message_that_stays_and_says_the_same_is_not_called_clean(scene: Scene) -> None:
    await scene.event("evt_1", f"He wrote: {_SECRET}.")
    await scene.fact("fact_1", _SECRET, source_event_id="evt_1")
    target = await scene.find(lambda connection: forgetting.fact(connection, "fact_1"))
    report = await forgetting.forget(scene.ledgers, target, actor="test")
    assert report is not None
    rows = report.receipt.places["rows"]
    assert (rows.status, rows.counts["sources_kept"]) == ("kept", 1)
    assert rows.counts["texts_kept"] > 0


async def test_another_message_of_the_same_sender_does_not_say_the_same(scene: Scene) -> None:
    for id_, text in (("evt_1", f"Thank you! {_SECRET}"), ("evt_3", "Thank you!"), ("evt_2", "Thank you!")):
        await scene.event(id_, text, sender="somebody@example.com")
    assert (await _forget_event(scene)).receipt.places["rows"].status == "clean"


@pytest.mark.parametrize("code", ["utf-8", "utf-16-le"])
async def test_a_file_that_still_says_it_is_not_called_clean(scene: Scene, code: str) -> None:
    await _tell(scene)
    (scene.ledgers.home.state / "notes.txt").write_bytes("about Quillfeather".encode(code))
    report = await _forget_event(scene)
    assert report.receipt.places["files"].status == "found"
    assert report.receipt.places["files"].counts["holding"] == 1
    assert report.receipt.places["rows"].status == "clean"


async def test_a_receipt_that_was_changed_or_signed_by_others_is_refused(
    scene: Scene, tmp_path: Path
) -> None:
    await _tell(scene)
    report = await _forget_event(scene)
    home = scene.ledgers.home
    changes: list[Callable[[dict[str, Any]], None]] = [
        lambda content: content["removed"].update({"memory.facts": 9}),
        lambda content: content["digests"].update(facts=[]),
        lambda content: content["places"]["wal"].update(status="found"),
        lambda content: content.update(signature="", public_key=""),
        lambda content: content.update(completed_at="2020-01-01T00:00:00.000Z"),
        lambda content: content.update(extra=1),
        lambda content: content.update(id="../../etc/passwd"),
    ]
    for number, change in enumerate(changes):
        copy = tmp_path / f"{number}.json"
        shutil.copy(report.file, copy)
        _change(copy, change)
        with pytest.raises(CareError, match=r"was changed|not a receipt"):
            forgetting.verify(home, copy)
    _change(report.file, changes[0])
    with pytest.raises(CareError, match="was changed"):
        Folder.of(home).load()


async def test_another_home_does_not_take_a_receipt_for_its_own(scene: Scene, tmp_path: Path) -> None:
    await _tell(scene)
    report = await _forget_event(scene)
    other = Home(tmp_path / "other")
    other.create()
    with pytest.raises(CareError, match="by another home"):
        forgetting.verify(other, report.file)
    # A stranger, who has the public key alone, sees that it is genuine.
    assert Receipt.read(report.file).public_key == forgetting.public_key(scene.ledgers.home)


async def test_a_backup_tells_what_it_still_has_and_gets_the_receipt(scene: Scene, tmp_path: Path) -> None:
    home = scene.ledgers.home
    await _tell(scene)
    await asyncio.to_thread(backup.make, home, tmp_path / "old")
    report = await _forget_event(scene)
    (known,) = report.receipt.backups
    assert (known.status, known.rows) == ("found", 5)
    own, old = forgetting.verify(home, report.file).places
    assert own.found.is_clean
    assert old.found.rows == report.receipt.removed
    await asyncio.to_thread(backup.make, home, tmp_path / "new")
    (new,) = forgetting.verify(home, report.file, place=tmp_path / "new").places
    assert new.found.is_clean
    # Elsewhere, with nothing of the home: the backup itself has the receipt.
    done = await asyncio.to_thread(backup.restore, tmp_path / "old", Home(tmp_path / "elsewhere"), trust=True)
    assert [(each.forget_id, each.rows, each.is_removed) for each in done.returned] == [
        (report.forget_id, 5, True)
    ]
    assert not [
        path
        for path in (tmp_path / "elsewhere").rglob("*")
        if path.is_file() and b"Quillf" in path.read_bytes()
    ]


async def test_a_changed_receipt_stops_a_restore_before_anything_changes(
    scene: Scene, tmp_path: Path
) -> None:
    home = scene.ledgers.home
    await _tell(scene)
    await asyncio.to_thread(backup.make, home, tmp_path / "old")
    report = await _forget_event(scene)
    await scene.ledgers.close()
    _change(report.file, lambda content: content["digests"].update(facts=[], events=[]))
    with pytest.raises(CareError, match="was changed"):
        await asyncio.to_thread(backup.restore, tmp_path / "old", home, replace=True, trust=True)
    assert b"Quillf" not in home.ledger("events").read_bytes()


async def test_what_was_forgotten_comes_back_only_when_asked_for(scene: Scene, tmp_path: Path) -> None:
    home = scene.ledgers.home
    await _tell(scene)
    await asyncio.to_thread(backup.make, home, tmp_path / "old")
    report = await _forget_event(scene)
    await scene.ledgers.close()
    done = await asyncio.to_thread(
        backup.restore, tmp_path / "old", home, replace=True, trust=True, bring_back=True
    )
    assert [(each.rows, each.is_removed) for each in done.returned] == [(5, False)]
    own = forgetting.verify(home, report.file).places[0]
    assert own.found.rows == report.receipt.removed


async def test_what_was_forgotten_without_a_receipt_is_counted(scene: Scene, tmp_path: Path) -> None:
    home = scene.ledgers.home
    await _tell(scene)
    await asyncio.to_thread(backup.make, home, tmp_path / "old")
    report = await _forget_event(scene)
    await scene.ledgers.close()
    shutil.rmtree(report.file.parent)
    shutil.rmtree(tmp_path / "old" / "receipts")
    done = await asyncio.to_thread(backup.restore, tmp_path / "old", home, replace=True, trust=True)
    assert (done.returned, done.unreceipted) == ((), 1)


async def test_a_single_ledger_from_a_backup_brings_nothing_back(scene: Scene, tmp_path: Path) -> None:
    home = scene.ledgers.home
    await _tell(scene)
    await asyncio.to_thread(backup.make, home, tmp_path / "old")
    report = await _forget_event(scene)
    await scene.ledgers.close()
    home.ledger("memory").unlink()
    newest = backup.newest(home)
    assert newest is not None
    await asyncio.to_thread(backup.restore_ledger, home, "memory", newest)
    assert forgetting.verify(home, report.file).places[0].found.is_clean
    assert b"Quillf" not in home.ledger("memory").read_bytes()


async def test_a_receipt_after_a_crash_does_not_call_clean_what_was_not_searched(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _tell(scene)
    target = await scene.find(lambda connection: forgetting.event(connection, "evt_1"))

    async def crash(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(removal, "_scrub_all", crash)
        with pytest.raises(RuntimeError):
            await forgetting.forget(scene.ledgers, target, actor="test")
    (report,) = await forgetting.resume(scene.ledgers)
    assert report.receipt.places["free_pages"].status == "unsearched"
    assert report.receipt.places["rows"].counts["left"] == 0
    assert report.receipt.digests["facts"]
    assert not list(report.file.parent.glob(".*draft"))
    assert forgetting.verify(scene.ledgers.home, report.file).places[0].found.is_clean


async def test_ids_on_free_pages_and_in_other_files_are_found(scene: Scene) -> None:
    id_ = "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV"
    fact = "fact_01ARZ3NDEKTSV4RRFFQ69G5FAW"
    await scene.event(id_, _SECRET)
    await scene.fact(fact, "So it is.", source_event_id=id_)
    target = await scene.find(lambda connection: forgetting.event(connection, id_))
    report = await forgetting.forget(scene.ledgers, target, actor="test")
    assert report is not None
    home = scene.ledgers.home
    (home.state / "export.jsonl").write_text(f'{{"id": "{fact}"}}')
    found = forgetting.verify(home, report.file).places[0].found
    assert (found.rows, found.ids) == ({}, {"state/export.jsonl": 1})
    (one,) = forgetting.verify(home, report.file, place=home.state / "export.jsonl").places
    assert one.found.ids == {"export.jsonl": 1}


def test_words_are_found_as_utf_16_and_in_base64_wherever_they_begin() -> None:
    words = Words()
    words.add("Wollongong is far", is_whole=True)
    patterns = words.patterns()
    for code in ("utf-8", "utf-16-le", "utf-16-be"):
        assert patterns.find(b"\0\1" + "in WOLLONGONG".encode(code))
    assert not patterns.find(b"Wollondilly Gong is fa")


async def test_without_the_package_for_signatures_the_home_still_knows_its_receipts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _tell(scene)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    report = await _forget_event(scene)
    home = scene.ledgers.home
    assert (report.receipt.public_key, report.receipt.signature) == ("", "")
    assert forgetting.verify(home, report.file).is_clean
    with pytest.raises(CareError, match=r"has no signature(.|\n)*nexus-runtime\[receipts\]"):
        Receipt.read(report.file)
    with pytest.raises(CareError, match=r"nexus-runtime\[receipts\]"):
        forgetting.public_key(home)
    _change(report.file, lambda content: content["digests"].update(facts=[]))
    with pytest.raises(CareError, match="was changed"):
        forgetting.verify(home, report.file)


async def test_an_older_export_brings_nothing_back_where_receipts_are_named(
    scene: Scene, tmp_path: Path
) -> None:
    await _tell(scene)
    export = io.BytesIO()
    await asyncio.to_thread(transfer.write, scene.ledgers.home, export)
    report = await _forget_event(scene)
    export.seek(0)
    other = Home(tmp_path / "other")
    done = await asyncio.to_thread(transfer.read, export, other, trust=True, receipts=scene.ledgers.home.root)
    assert [(each.forget_id, each.rows, each.is_removed) for each in done.returned] == [
        (report.forget_id, 5, True)
    ]
    assert b"Quillf" not in b"".join(other.ledger(name).read_bytes() for name in ("events", "memory"))
    # It took the receipts over, so that it can check them by itself.
    assert forgetting.verify(other, Folder.of(other).file(report.forget_id)).is_clean


async def test_a_time_range_and_a_scope_are_removed_again(scene: Scene, tmp_path: Path) -> None:
    home = scene.ledgers.home
    await scene.event("evt_old", f"Then: {_SECRET}", occurred_at="2026-02-13T10:00:00.000Z")
    await scene.event("evt_user", f"To you alone: {_SECRET}", channel="memory:user-42")
    await scene.event("evt_stays", "Nothing of the kind.", occurred_at="2026-03-01T10:00:00.000Z")
    await asyncio.to_thread(backup.make, home, tmp_path / "old")
    reports: list[Report] = []
    for target in (
        forgetting.time_range("2026-02-13", "2026-02-14"),
        forgetting.scope("memory:user-42"),
    ):
        report = await forgetting.forget(scene.ledgers, target, actor="test")
        assert report is not None
        reports.append(report)
    assert "user-42" not in reports[1].file.read_text()
    await scene.ledgers.close()
    done = await asyncio.to_thread(backup.restore, tmp_path / "old", home, replace=True, trust=True)
    assert {each.forget_id for each in done.returned} == {report.forget_id for report in reports}
    held = home.ledger("events").read_bytes()
    assert b"Quillf" not in held
    assert b"evt_stays" in held
