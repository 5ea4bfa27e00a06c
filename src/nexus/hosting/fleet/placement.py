"""Choose the host of a home: a lightly loaded one, without sending every new home to the same."""

import random
from collections.abc import Sequence
from typing import Final

from nexus.hosting.fleet.records import FleetHost

# Below it a host gets no further homes: opening one copies its ledgers to the disk.
LEAST_DISK_MIB: Final = 1_024
# A host without load figures is new. So many homes weigh as much as a fully used processor.
_HOMES_AT_FULL_LOAD: Final = 256


def choose(
    hosts: Sequence[FleetHost], *, but: str = "", schema: int = 0, chance: random.Random | None = None
) -> FleetHost | None:
    """The less loaded of two hosts drawn at random that know the home's ledgers; None if there is none.

    Load figures are seconds old. Taking the least loaded host each time would send it everything until the
    next ones arrive; the better of two is nearly as even and can't run over.
    """
    able = [
        each
        for each in hosts
        if each.is_alive
        and not each.is_draining
        and each.name != but
        and each.schema >= schema
        and _has_room(each)
    ]
    drawn = (chance or random.Random()).sample(able, min(2, len(able)))  # noqa: S311 - no secret
    return min(drawn, key=_load, default=None)


def _has_room(host: FleetHost) -> bool:
    return host.load.disk_free_mib >= LEAST_DISK_MIB


def _load(host: FleetHost) -> float:
    """How busy a host is now, then how many homes it has to wake."""
    return max(host.load.cpu_share, host.load.open_homes / _HOMES_AT_FULL_LOAD) + host.homes * 1e-6
