"""Removing again what an older backup brings back: each receipt that came after it is applied.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import apsw

from nexus.config import LedgersConfig
from nexus.errors import CareError, NexusError, UsageError
from nexus.home import Home
from nexus.ledgers import sql
from nexus.ledgers.forgetting import inspection, removal, targets
from nexus.ledgers.forgetting.inspection import Item
from nexus.ledgers.forgetting.planning import Beside, Nothing
from nexus.ledgers.forgetting.receipts import Digests, Folder, Receipt
from nexus.ledgers.forgetting.sets import attach_all
from nexus.ledgers.forgetting.targets import Kind, Target
from nexus.ledgers.ledgers import Ledgers

# Makes what forgets in the engine's database of a home, if that has one.
OpenBeside = Callable[[Home], Beside]


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """What a backup brought back though it was forgotten since, and whether it was removed again."""

    forget_id: str
    completed_at: str
    rows: int
    is_removed: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.forget_id,
            "completed_at": self.completed_at,
            "rows": self.rows,
            "removed": self.is_removed,
        }


def remove_again(
    home: Home,
    sources: Sequence[Folder],
    *,
    made_at: str,
    open_beside: OpenBeside = lambda _: Nothing(),
    bring_back: bool = False,
) -> list[Returned]:
    """Apply the receipts of some folders to a home that nobody uses yet, made of a backup of `made_at`.

    With `bring_back`, nothing is removed. A receipt that was changed is refused.
    """
    returned: dict[str, Returned] = {}
    for source in sources:
        digests = source.digests()
        receipts = [each for each in _load(source) if each.id not in returned] if digests else []
        if digests is None or not receipts:
            continue
        Folder.of(home).take(source, receipts)
        found = _find(home, receipts, digests, made_at)
        for receipt in receipts:
            if receipt.id not in found:
                continue
            items, rows = found[receipt.id]
            if not bring_back:
                _run(home, receipt, digests, items, open_beside)
            returned[receipt.id] = Returned(
                forget_id=receipt.id, completed_at=receipt.completed_at, rows=rows, is_removed=not bring_back
            )
    return list(returned.values())


def find_folder(path: Path) -> Folder:
    """Return the folder of receipts in a home, in a backup, or the one that is named itself."""
    path = path.expanduser()
    for folder in (Folder.of(Home(path)), Folder(path / "receipts"), Folder(path)):
        if folder.digests() is not None:
            return folder
    raise CareError(
        f"{path} holds no receipts of forgetting",
        hint="Pass a home, or its folder state/receipts with its keys.",
    )


def _load(source: Folder) -> list[Receipt]:
    try:
        return source.load()
    except CareError as error:
        raise CareError(
            error.message,
            hint="Nothing changed. Restore the file, or remove it: what it names then stays in the backup.",
        ) from error


def _find(
    home: Home, receipts: Sequence[Receipt], digests: Digests, made_at: str
) -> dict[str, tuple[list[Item], int]]:
    texts = {receipt.id for receipt in receipts if receipt.completed_at > made_at}
    with closing(inspection.attach_at_rest(home)) as connection:
        found = inspection.find_items(connection, receipts, digests, with_texts=texts)
        counted = {
            id_: (items, sum(inspection.count_rows(connection, items).values()))
            for id_, items in found.items()
        }
    return {id_: each for id_, each in counted.items() if each[1]}


def _run(
    home: Home, receipt: Receipt, digests: Digests, items: Sequence[Item], open_beside: OpenBeside
) -> None:
    # On a thread of its own, because the caller's may have an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(_repeat(home, receipt, digests, items, open_beside))).result()


async def _repeat(
    home: Home, receipt: Receipt, digests: Digests, items: Sequence[Item], open_beside: OpenBeside
) -> None:
    async with Ledgers(home, LedgersConfig()) as ledgers:
        for database in ledgers:
            await database.read(lambda _: None)  # migrates it
        target = _resolve(home, receipt, digests)
        await removal.repeat(ledgers, receipt, target, items, open_beside(home))


def _resolve(home: Home, receipt: Receipt, digests: Digests) -> Target:
    """Return the target of a receipt, with the names that it has in a backup."""
    target = Target(kind=cast("Kind", receipt.target_kind), value=receipt.target)
    with closing(attach_all(home)) as connection:
        if target.kind == "scope":
            channels = [str(row[0]) for row in connection.execute(sql.queries("forgetting")["channels"])]
            named = next((each for each in channels if digests.of(each) == receipt.target), receipt.target)
            return replace(target, value=named)
        if target.kind == "entity" and receipt.searches_names:
            with suppress(UsageError):
                return targets.entity(connection, receipt.target)
    return target


def count_unreceipted(home: Home, made_at: str) -> int:
    """Count what a home forgot after a time without a receipt: they are newer, or the files are gone."""
    path = home.ledger("runtime")
    if not path.is_file():
        return 0
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            rows = connection.execute(
                sql.queries("forgetting")["completed_forgets"], {"after": made_at}
            ).fetchall()
    except (apsw.Error, NexusError):
        return 0
    return sum(1 for (id_,) in rows if not Folder.of(home).file(str(id_)).is_file())
