"""Making the receipt of a forget while it is carried out, across crashes."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Protocol, cast

import apsw

from nexus import __version__, clock, hosted
from nexus.home import Home
from nexus.ledgers import files
from nexus.ledgers.forgetting import inspection, receipts
from nexus.ledgers.forgetting.inspection import Item
from nexus.ledgers.forgetting.planning import Entry
from nexus.ledgers.forgetting.receipts import Folder, Place, Receipt
from nexus.ledgers.forgetting.sets import Sets
from nexus.ledgers.forgetting.traces import Words
from nexus.ledgers.ledgers import Ledgers
from nexus.ledgers.memory import seals

_SOURCES_KEPT: Final = """
SELECT count(DISTINCT source_event_id) FROM memory.facts
WHERE id IN gone_facts AND source_event_id IN (SELECT id FROM events.events WHERE id NOT IN gone_events)
"""
_ITEMS: Final = "SELECT kind, item_id FROM forget_items WHERE forget_id = ?"


@dataclass(kw_only=True, slots=True)
class Sought:
    """What is known of a target only while its rows are still there."""

    words: Words = field(default_factory=Words)
    sources_kept: int = 0

    def gather(self, sets: Sets) -> None:
        """Take in the words of a plan, and count the messages that stay though a fact of them goes."""
        self.words.gather(sets)
        self.sources_kept += cast("int", sets.connection.execute(_SOURCES_KEPT).get)


class Copies(Protocol):
    """Tells whether copies elsewhere are replaced."""

    @property
    def renews_copies(self) -> bool: ...


@dataclass(kw_only=True, slots=True)
class Draft:
    """What a receipt says that can't be found out any more once rows are gone; kept on disk, as digests."""

    began_at: str
    seal_before: str
    free_pages: int
    wal_bytes: int
    searches_names: bool
    digests: dict[str, list[str]]


def _file(home: Home, forget_id: str) -> Path:
    return Folder.of(home).path / f".{forget_id}.draft"


async def begin(ledgers: Ledgers, entry: Entry) -> Draft:
    """Return the draft of a forget; it is made before anything is removed, and found again after a crash."""
    path = _file(ledgers.home, entry.forget_id)
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Draft(**json.loads(await asyncio.to_thread(path.read_text, encoding="utf-8")))
    while await ledgers.memory.write(seals.seal):
        pass
    sizes = await asyncio.to_thread(inspection.measure, ledgers.home)
    draft = Draft(
        began_at=clock.timestamp(clock.now()),
        seal_before=await ledgers.memory.read(seals.head),
        free_pages=sizes.free_pages,
        wal_bytes=sizes.wal_bytes,
        searches_names=entry.target.mentions and not entry.target.skips_names,
        digests={},
    )
    await asyncio.to_thread(_keep, ledgers.home, entry.forget_id, draft)
    return draft


def _keep(home: Home, forget_id: str, draft: Draft) -> None:
    Folder.of(home).make_digests()
    receipts.replace_file(_file(home, forget_id), json.dumps(asdict(draft)))


async def note_items(ledgers: Ledgers, entry: Entry, draft: Draft) -> list[Item]:
    """Put the keys of the plan into the draft, as digests, before the plan is dropped; returns the keys."""

    def read(connection: apsw.Connection) -> list[Item]:
        return [(str(kind), str(key)) for kind, key in connection.execute(_ITEMS, (entry.forget_id,))]

    items = await ledgers.runtime.read(read)
    if items:
        await asyncio.to_thread(_note, ledgers.home, entry.forget_id, draft, items)
    return items


def _note(home: Home, forget_id: str, draft: Draft, items: Sequence[Item]) -> None:
    digests = Folder.of(home).make_digests()
    found: dict[str, list[str]] = {}
    for kind, key in items:
        # A file goes with the attachment that names it; its path may say something.
        if kind != "files":
            found.setdefault(kind, []).append(digests.of(key))
    # In the order of digests, which tells nothing about the order of the rows.
    draft.digests = {kind: sorted(of_kind) for kind, of_kind in sorted(found.items())}
    _keep(home, forget_id, draft)


async def finish(
    ledgers: Ledgers, entry: Entry, draft: Draft, items: Sequence[Item], sought: Sought | None, beside: Copies
) -> tuple[Receipt, Path]:
    """Look everywhere for what was removed, and write the receipt. One that was written before stays."""
    seal_after = await ledgers.memory.read(seals.head)
    return await asyncio.to_thread(_finish, ledgers.home, entry, draft, items, sought, seal_after, beside)


def _finish(
    home: Home,
    entry: Entry,
    draft: Draft,
    items: Sequence[Item],
    sought: Sought | None,
    seal_after: str,
    beside: Copies,
) -> tuple[Receipt, Path]:
    folder = Folder.of(home)
    path = folder.file(entry.forget_id)
    if path.exists():
        # It was forgotten before, and an older backup brought it back.
        _file(home, entry.forget_id).unlink(missing_ok=True)
        return folder.read(path), path
    digests = folder.make_digests()
    removed, emptied = entry.counts.removed, entry.counts.emptied
    before = inspection.Sizes(free_pages=draft.free_pages, wal_bytes=draft.wal_bytes)
    words, kept = (sought.words, sought.sources_kept) if sought else (None, 0)
    places = inspection.describe_places(home, items, words, removed, before, kept)
    places["copies"] = _describe_copies(home, beside)
    known = list_known(home)
    backups = [inspection.describe_backup(place, made, items) for place, made in known]
    target = entry.target
    unsigned = Receipt(
        id=entry.forget_id,
        nexus_version=__version__,
        target_kind=target.kind,
        target=digests.of(target.value) if target.kind == "scope" else target.value,
        searches_names=draft.searches_names,
        began_at=draft.began_at,
        completed_at=clock.timestamp(clock.now()),
        seal_before=draft.seal_before,
        seal_after=seal_after,
        removed=removed,
        emptied=emptied,
        files=entry.counts.files,
        places=places,
        backups=backups,
        key_id=digests.key_id,
        digests=draft.digests,
    )
    receipt = receipts.save(home, unsigned)
    for (place, _), backup in zip(known, backups, strict=True):
        if backup.status == "found":
            note_beside(folder, place, receipt)
    _file(home, entry.forget_id).unlink(missing_ok=True)
    return receipt, path


def note_beside(folder: Folder, backup: Path, receipt: Receipt) -> None:
    """Put a receipt into a backup that still has what it names, so that restoring that removes it again."""
    # A disk that can't be written to is no reason to fail: the home keeps its receipts, too.
    with contextlib.suppress(OSError):
        if (backup / "manifest.json").is_file():
            Folder(backup / "receipts").take(folder, [receipt])


def _describe_copies(home: Home, beside: Copies) -> Place:
    if not hosted.has_copies(home):
        return Place(status="none")
    return Place(status="clean" if beside.renews_copies else "unsearched")


def list_known(home: Home) -> list[tuple[Path, str]]:
    """Return the backups that were made of a home and the homes that restores put aside, with their times."""
    found: list[tuple[Path, str]] = []
    for line in files.list_backups(home):
        made = ""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            made = str(json.loads((Path(line) / "manifest.json").read_bytes())["created_at"])
        found.append((Path(line), made))
    for beside in (home.root.parent, home.root):
        prefix = f"{home.root.name}.before-restore-" if beside == home.root.parent else "before-restore-"
        found += [
            (path, path.name.removeprefix(prefix))
            for path in sorted(beside.glob(f"{prefix}*"))
            if path.is_dir()
        ]
    return found
