"""Which host a home is given to."""

import random
from collections import Counter

from nexus.hosting.fleet.moves import LEAST_DISK_MIB, choose_host
from nexus.hosting.fleet.records import FleetHost, Load


def host(
    name: str,
    *,
    is_alive: bool = True,
    is_draining: bool = False,
    homes: int = 0,
    schema: int = 1,
    load: Load | None = None,
) -> FleetHost:
    return FleetHost(
        name=name,
        url=f"http://{name}",
        version="1",
        schema=schema,
        started_at="",
        lease_until="",
        is_alive=is_alive,
        is_draining=is_draining,
        homes=homes,
        load=load or Load(disk_free_mib=LEAST_DISK_MIB),
    )


def busy(open_homes: int = 0, cpu_share: float = 0.0, disk_free_mib: int = LEAST_DISK_MIB) -> Load:
    return Load(open_homes=open_homes, cpu_share=cpu_share, disk_free_mib=disk_free_mib)


def chosen(*hosts: FleetHost, but: str = "", needs: int = 0) -> Counter[str]:
    chance = random.Random(1)
    drawn = [choose_host(hosts, but=but, schema=needs, chance=chance) for _ in range(300)]
    return Counter(each.name for each in drawn if each is not None)


def test_a_dead_draining_full_or_excluded_host_gets_no_home() -> None:
    unfit = (
        host("dead", is_alive=False),
        host("draining", is_draining=True),
        host("full", load=busy(disk_free_mib=LEAST_DISK_MIB - 1)),
    )
    assert set(chosen(*unfit, host("left"), host("well"), but="left")) == {"well"}
    assert choose_host(unfit) is None


def test_the_busiest_host_gets_none_while_others_have_less_to_do() -> None:
    for load in (busy(cpu_share=0.9), busy(open_homes=200)):
        drawn = chosen(host("busy", load=load), host("one"), host("two"))
        assert drawn["busy"] == 0
        assert min(drawn["one"], drawn["two"]) > 50


def test_hosts_with_the_same_load_share_new_homes() -> None:
    drawn = chosen(host("one"), host("two"), host("three"))
    assert min(drawn.values()) > 50
    assert len(drawn) == 3


def test_of_two_idle_hosts_the_one_with_fewer_homes_gets_the_next() -> None:
    assert set(chosen(host("many", homes=900), host("few", homes=100))) == {"few"}


def test_a_home_goes_to_no_host_that_is_older_than_its_ledgers() -> None:
    hosts = (host("old", schema=7), host("new", schema=8, load=busy(cpu_share=0.9)))
    assert set(chosen(*hosts, needs=8)) == {"new"}
    assert set(chosen(*hosts, needs=7)) == {"old"}
    assert choose_host(hosts, schema=9) is None
