"""What a host accepted and could not copy before another host took its home: it is given to that host.

Only messages: whatever was computed from them is computed again. They are given as soon as that host has the
home, and again until they were read back from its copy: only then is the folder deleted.
"""

import asyncio
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from nexus import hosted
from nexus.app import reception
from nexus.engine.shared import HomeAwayError
from nexus.home import PRIVATE_DIRECTORY, Home
from nexus.hosting.homes import has_keys
from nexus.ledgers import fencing

if TYPE_CHECKING:
    from nexus.hosting.fleet.registry import FleetRegistry
    from nexus.hosting.replication import Replicas

SALVAGED: Final = "/internal/homes/{id}/salvaged"
_TIMEOUT_S: Final = 60.0
_TOGETHER: Final = 500
_log = logging.getLogger("nexus.fleet")


def lost_folders(registry: "FleetRegistry") -> list[Home]:
    """Folders of homes that another host owns. Waits for the disk and the network."""
    found: list[Home] = []
    folder = registry.root / "homes"
    names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    for first in range(0, len(names), _TOGETHER):
        known = registry.epochs_of(names[first : first + _TOGETHER])
        found += [registry.home(name) for name, (_, host, _) in known.items() if host != registry.name]
    return found


async def salvage(registry: "FleetRegistry", copies: "Replicas", folder: Path) -> bool:
    """Give what only a folder holds to the owner of its home, and delete it with its copy. False: not now.

    ReplicaError where nobody has opened the home since, and its copy can't be read back.
    """
    home = Home(folder)
    place = await asyncio.to_thread(hosted.place, home)
    epoch = await asyncio.to_thread(fencing.read_epoch, home)
    if home.ledger("events").exists():
        if place is None or epoch is None or await asyncio.to_thread(registry.get, place.id) is None:
            await asyncio.to_thread(_keep, registry.root, folder)
            return False
        successor = await asyncio.to_thread(registry.successor, place.id, epoch)
        if successor.epoch == epoch:
            # It was handed over, and is closed there.
            await copies.check(f"{place.id}/{epoch}", home)
        elif successor.events_seq is None:
            return False  # its owner may have begun with less than its copy has by now
        else:
            # At once: this disk may be lost, too.
            waiting = await asyncio.to_thread(list, reception.messages(home, successor.events_seq))
            try:
                count = await _give(registry, place.id, waiting)
            except (httpx.HTTPError, HomeAwayError) as error:
                _log.warning("messages could not be salvaged yet: %s", error, extra={"home": place.id})
                return False
            if count:
                _log.warning("messages were salvaged", extra={"home": place.id, "messages": count})
            if not successor.is_replaced:
                return False  # its owner may still fail, and need what is here or in our copy
            if waiting:
                # Whoever took them may have lost the home since, and the next owner began without them.
                async with copies.reading(f"{place.id}/{successor.epoch}", only_events=True) as copy:
                    if not await asyncio.to_thread(reception.has_all, copy, waiting):
                        return False
        if await asyncio.to_thread(registry.successor, place.id, epoch) != successor:
            return False  # it was taken over meanwhile, from what was there before
        if successor.epoch != epoch:
            # Its owner has deleted it, but we may have written to it since.
            await copies.drop(f"{place.id}/{epoch}")
            await asyncio.to_thread(registry.note_dropped, place.id, epoch)
        if await asyncio.to_thread(has_keys, home):
            await asyncio.to_thread(_keep, registry.root, folder)
            return True
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return True


def _keep(root: Path, folder: Path) -> None:
    """Put a folder away that no home of the fleet has left here, or that has keys."""
    kept = root / "kept"
    kept.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    folder.rename(kept / folder.name)
    _log.warning("a folder was kept", extra={"folder": folder.name})


async def _give(registry: "FleetRegistry", home_id: str, waiting: list[dict[str, Any]]) -> int:
    """Give messages to the owner of their home; returns how many it did not have."""
    if not waiting:
        return 0
    owner = await asyncio.to_thread(registry.owner_of, home_id)
    if owner is None or not owner.is_alive:
        raise HomeAwayError("Its owner is not alive")
    headers = {"authorization": registry.authorization(owner.host)}
    taken = 0
    async with httpx.AsyncClient(base_url=owner.url, headers=headers, timeout=_TIMEOUT_S) as client:
        for message in waiting:
            answer = await client.post(SALVAGED.format(id=home_id), json=message)
            answer.raise_for_status()
            taken += bool(answer.json()["taken"])
    return taken
