"""Emptying a host: each of its homes gets another one. All functions wait for the network."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nexus.errors import HomeBusyError, HomeError
from nexus.hosting.fleet.records import FleetHost
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.hosting.registry import HostedHome

# Below it a host gets no further homes: opening one copies its ledgers to the disk.
LEAST_DISK_MIB: Final = 1_024
# A host without load figures is new. So many homes weigh as much as a fully used processor.
_HOMES_AT_FULL_LOAD: Final = 256
_PAGE: Final = 500


def choose_host(
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
        and each.load.disk_free_mib >= LEAST_DISK_MIB
    ]
    drawn = (chance or random.Random()).sample(able, min(2, len(able)))  # noqa: S311 - no secret
    return min(drawn, key=_load, default=None)


def _load(host: FleetHost) -> float:
    """How busy a host is now, then how many homes it has to wake."""
    return max(host.load.cpu_share, host.load.open_homes / _HOMES_AT_FULL_LOAD) + host.homes * 1e-6


def drain(registry: FleetRegistry, host: str) -> int:
    """Give a host no more homes and have it hand over those it has; returns how many those are.

    It hands over each when nobody uses it, and serves it until then.
    """
    registry.set_draining(host)
    return _place_all_elsewhere(registry, host)


def resume(registry: FleetRegistry, host: str) -> int:
    """Let a host that was drained take homes again; returns how many it has."""
    registry.set_draining(host, is_draining=False)
    return registry.host_named(host).homes


def evacuate(registry: FleetRegistry, host: str) -> int:
    """Give the homes of a dead host to the others; returns how many."""
    if registry.host_named(host).is_alive:
        raise HomeBusyError(
            f"{host} is alive", hint=f"Stop it first, or move its homes with `nexus host drain {host}`."
        )
    return _place_all_elsewhere(registry, host)


def homes_on(registry: FleetRegistry, host: str) -> Iterator[HostedHome]:
    """The homes of a host."""
    after = ""
    while found := registry.placements(host, after, _PAGE):
        yield from found
        after = found[-1].name


def place_elsewhere(registry: FleetRegistry, host: str, home_ids: Iterable[str]) -> None:
    """Give homes of a host to the others."""
    hosts = registry.hosts()
    for home_id in home_ids:
        home = registry.get(home_id)
        chosen = choose_host(hosts, but=host, schema=home.schema if home else 0)
        if chosen is None:
            raise HomeError(
                "No other host takes homes",
                hint="`nexus host hosts` shows which are alive. They must have room, and not be older.",
            )
        registry.place(home_id, chosen.name)


def _place_all_elsewhere(registry: FleetRegistry, host: str) -> int:
    homes = list(homes_on(registry, host))
    place_elsewhere(registry, host, [each.id for each in homes if each.moving_to is None])
    return len(homes)
