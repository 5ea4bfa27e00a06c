"""What one home may take of its host."""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from nexus.config import BudgetsConfig
from nexus.errors import UsageError

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits of one home. 0 is no limit, but for `concurrency` and `requests`."""

    rate_per_s: int = 50
    """Requests per second that the gateway answers."""
    requests: int = 64
    """Requests under way at the same time, streams included."""
    concurrency: int = 4
    """Executions of each lane at the same time."""
    day_usd: float = 0.0
    month_usd: float = 0.0
    disk_mib: int = 4096
    """Size of the home's folder. Beyond it nothing new is accepted, and its work waits."""
    # Of all its sandboxes together, where the host has cgroups: twice what a single one may take, so that one
    # that takes too much is ended by its own limit, which says why.
    memory_mib: int = 2048
    processes: int = 512
    cpus: float = 0.0
    """Processors' time per second. Without a limit homes that compute share evenly."""

    @classmethod
    def of_json(cls, text: str) -> Self:
        known = {each.name for each in fields(cls)}
        given: dict[str, Any] = json.loads(text)
        return cls(**{name: value for name, value in given.items() if name in known})

    def to_json(self) -> str:
        """Only what differs from the defaults, so that those can change."""
        usual = asdict(type(self)())
        return json.dumps({name: value for name, value in asdict(self).items() if value != usual[name]})

    def change(self, changes: dict[str, Any]) -> Self:
        """With other values, each of which must make sense."""
        found = replace(self, **changes)
        if min(found.concurrency, found.requests, found.rate_per_s) < 1 or min(asdict(found).values()) < 0:
            raise UsageError(
                "A limit is too low", hint="Rate, requests and concurrency start at 1, others at 0."
            )
        return found

    def budgets(self, own: BudgetsConfig) -> BudgetsConfig:
        """The home's budgets, no higher than its host allows."""
        return replace(
            own, day_usd=_lower(own.day_usd, self.day_usd), month_usd=_lower(own.month_usd, self.month_usd)
        )


def _lower(one: float, other: float) -> float:
    """The lower of two limits, of which 0 is none."""
    return min(filter(None, (one, other)), default=0.0)
