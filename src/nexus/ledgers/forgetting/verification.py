"""Checking a receipt later: on the home, its backups, a copy or an export.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import apsw

from nexus.errors import CareError, NexusError
from nexus.home import Home
from nexus.ledgers.forgetting import inspection, recording
from nexus.ledgers.forgetting.inspection import Found
from nexus.ledgers.forgetting.receipts import Digests, Folder, Receipt


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What one place still has of what a receipt names."""

    kind: Literal["home", "backup", "copy", "file"]
    path: Path
    created_at: str = ""
    found: Found
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "path": str(self.path),
            "created_at": self.created_at or None,
            "clean": self.found.is_clean and not self.problem,
            "problem": self.problem or None,
            **asdict(self.found),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Checks:
    """What was found in all places that were searched."""

    receipt: Receipt
    places: list[Check]

    @property
    def is_clean(self) -> bool:
        return all(each.found.is_clean and not each.problem for each in self.places)


def verify(home: Home, path: Path, *, place: Path | None = None) -> Checks:
    """Check a receipt of this home, and look for what it names: in the home and its backups, or a place."""
    folder = Folder.of(home)
    receipt = folder.read(path)
    digests = folder.digests()
    if digests is None or digests.key_id != receipt.key_id:
        raise CareError(
            f"The receipt {receipt.id} was made with a key that this home doesn't have",
            hint=f"Restore the home's own {folder.path / 'digest.key'} from a backup.",
        )
    if place is not None:
        return Checks(receipt=receipt, places=[_check(place.expanduser(), receipt, digests)])
    own = inspection.inspect(home, receipt, digests, with_texts=False, at_rest=False)
    places = [Check(kind="home", path=home.root, found=own)]
    places += [
        _check(backup, receipt, digests) for backup, _ in recording.list_known(home) if backup.is_dir()
    ]
    return Checks(receipt=receipt, places=places)


def _check(place: Path, receipt: Receipt, digests: Digests) -> Check:
    if place.is_file():
        return _explained("file", place, "", lambda: inspection.inspect_file(place, receipt, digests))
    made_at = read_time(place)
    home = Home(place)
    if not home.data.is_dir():
        raise CareError(f"{place} is neither a backup, a home nor a file", hint="Check the path.")
    # A home may have written new texts since. A backup that is older than the receipt has the old ones.
    older = bool(made_at) and made_at < receipt.completed_at
    return _explained(
        "backup" if made_at else "copy",
        place,
        made_at,
        lambda: inspection.inspect(home, receipt, digests, with_texts=older, at_rest=True),
    )


def _explained(kind: Literal["backup", "copy", "file"], path: Path, made_at: str, look: Any) -> Check:
    try:
        return Check(kind=kind, path=path, created_at=made_at, found=look())
    except NexusError as error:
        problem = error.message
    except (apsw.Error, OSError, EOFError) as error:
        problem = str(error)
    return Check(kind=kind, path=path, created_at=made_at, found=Found(), problem=problem)


def read_time(backup: Path) -> str:
    """Return when a backup was made; empty for what is none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((backup / "manifest.json").read_bytes())["created_at"])
    return ""
