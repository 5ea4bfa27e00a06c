"""What a check of `nexus doctor` says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result of a check. `fix` mends it, where that can be done without a decision."""

    check: str
    level: Level
    message: str
    remedy: str = ""
    fix: Callable[[], object] | None = None
