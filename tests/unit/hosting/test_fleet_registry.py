"""The control plane: who owns which home, under a real Postgres."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import InternalError

from contract.postgres import Postgres
from nexus import clock
from nexus.errors import HomeError, UsageError
from nexus.hosting.fleet.records import FleetUnreachableError, HomeElsewhereError, Load, Successor
from nexus.hosting.fleet.registry import FleetRegistry, connect
from nexus.hosting.limits import Limits

LONG_S = 3600.0
Join = Callable[[str], FleetRegistry]


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture
def join(url: str, tmp_path: Path) -> Iterator[Join]:
    """Makes hosts that are alive."""
    with ExitStack() as stack:

        def make(name: str) -> FleetRegistry:
            made = stack.enter_context(FleetRegistry(tmp_path / name, url, name))
            assert made.join(url=f"http://{name}", folder_id=name, lease_s=LONG_S)
            return made

        yield make


def test_homes_tokens_and_limits_are_the_same_on_every_host(join: Join) -> None:
    one, two = join("one"), join("two")
    made = one.add("ada", "settings")
    token = one.new_token(made.id, "read")
    one.set_limits(made.id, Limits(rate_per_s=7))
    found = two.get_named("ada")
    assert (found.id, found.limits.rate_per_s, found.host, found.is_open) == (made.id, 7, None, False)
    grant = two.grant(token)
    assert grant is not None
    assert (grant.home_id, grant.scope) == (made.id, "read")
    assert [each.name for each in two.list_homes()] == ["ada"]
    assert (two.count(), two.load_concurrency()) == (1, {made.id: Limits().concurrency})
    assert one.key(made.id) == two.key(made.id)
    with pytest.raises(HomeError, match="There is a home named ada"):
        two.add("ada")
    two.remove(made.id)
    assert two.grant(token) is None


def test_of_hosts_that_race_for_a_home_one_gets_it(join: Join) -> None:
    hosts = [join(f"host-{number}") for number in range(4)]
    homes = [hosts[0].add(f"home-{number}").id for number in range(25)]
    won: list[tuple[str, str]] = []
    start = threading.Barrier(len(hosts))

    def race(host: FleetRegistry) -> None:
        for home in homes:
            start.wait()
            with suppress(HomeElsewhereError):
                host.acquire(home, None)
                won.append((home, host.name))

    threads = [threading.Thread(target=race, args=[host]) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(home for home, _ in won) == sorted(homes)
    for home, host in won:
        owner = hosts[0].owner_of(home)
        assert owner is not None
        assert owner.host == host


def test_an_epoch_rises_with_each_owner_and_not_while_the_folder_is_current(join: Join) -> None:
    one, two = join("one"), join("two")
    home = one.add("ada", "made = 'so'").id
    first = one.acquire(home, None)
    assert first is not None
    assert (first.epoch, first.is_local, first.copies, first.settings) == (1, False, (), "made = 'so'")
    one.note_epoch(home, 1, 0, None)
    again = one.acquire(home, 1)
    assert again is not None
    assert (again.epoch, again.is_local) == (1, True)
    # The folder was lost, or is of another time.
    lost = one.acquire(home, None)
    assert lost is not None
    assert (lost.epoch, lost.is_local) == (2, False)
    with pytest.raises(HomeElsewhereError):
        two.acquire(home, None)
    one.note_epoch(home, 2, 0, None)
    assert not one.note_copied(home, 2)
    one.leave()
    taken = two.acquire(home, None)
    assert taken is not None
    assert (taken.epoch, taken.copies) == (3, (2,))
    # What the old owner does with it has no effect any more.
    with pytest.raises(FleetUnreachableError):
        one.note_copied(home, 2)
    one.note_closed(home)
    assert two.get_named("ada").is_open
    with pytest.raises(FleetUnreachableError):
        one.acquire(one.add("bert").id, None)


def test_attempts_to_open_a_home_share_an_epoch_until_something_is_written(join: Join) -> None:
    one, two = join("one"), join("two")
    home = one.add("ada").id

    def acquire(host: FleetRegistry) -> int:
        held = host.acquire(home, None)
        assert held is not None
        return held.epoch

    assert [acquire(one), acquire(one)] == [1, 1]
    one.note_epoch(home, 1, 0, None)
    assert [acquire(one), acquire(one)] == [2, 2]
    # Another process with our name may still be at it.
    assert one.join(url="http://one", folder_id="one", lease_s=LONG_S)
    assert acquire(one) == 3
    one.leave()
    assert acquire(two) == 4


def test_a_copy_is_superseded_once_a_newer_one_was_read_back(join: Join) -> None:
    one = join("one")
    home = one.add("ada").id
    for epoch in (1, 2, 3):
        held = one.acquire(home, None)
        assert held is not None
        assert (held.epoch, held.copies) == (epoch, tuple(range(epoch - 1, 0, -1)))
        one.note_epoch(home, epoch, 10 * epoch, held.copies[0] if held.copies else None)
        assert not one.note_copied(home, epoch)
        assert one.successor(home, epoch) == Successor(epoch=epoch, events_seq=None, is_replaced=False)
    assert one.successor(home, 1) == Successor(epoch=3, events_seq=20, is_replaced=False)
    assert one.find_superseded(home, 3) == []
    one.note_checked(home, 3)
    assert one.find_superseded(home, 3) == [(1, True), (2, True)]
    assert one.note_copied(home, 3), "it isn't read back a second time"
    one.note_dropping(home, 1)
    assert one.find_superseded(home, 3) == [(1, False), (2, True)]
    assert one.copies(home) == [3, 2]
    # Its owner may still find something in the copy.
    assert not one.successor(home, 1).is_replaced
    one.note_dropped(home, 1)
    assert one.successor(home, 1) == Successor(epoch=3, events_seq=20, is_replaced=True)
    one.note_dropped(home, 2)
    assert one.find_superseded(home, 3) == []
    held = one.acquire(home, None)
    assert held is not None
    assert held.copies == (3,)


def test_a_copy_that_was_passed_over_stays_until_its_messages_are_salvaged(join: Join) -> None:
    one = join("one")
    home = one.add("ada").id
    for epoch, base in ((1, None), (2, 1), (3, 1)):
        held = one.acquire(home, None)
        assert held is not None
        one.note_epoch(home, epoch, 10 * epoch, base)
        one.note_copied(home, epoch)
    # The third has nothing of the second: whatever that received is given to it.
    assert one.successor(home, 2).events_seq == 20
    assert one.successor(home, 1).events_seq == 20
    one.note_checked(home, 3)
    assert one.find_superseded(home, 3) == [(1, True), (2, True)]
    held = one.acquire(home, None)
    assert held is not None
    assert held.copies == (3, 1, 2)


def test_whatever_the_epochs_between_received_is_given_to_one_that_began_before_them(join: Join) -> None:
    one = join("one")
    home = one.add("ada").id
    for epoch, base in ((1, None), (2, 1), (3, 2), (4, 1)):
        assert one.acquire(home, None) is not None
        one.note_epoch(home, epoch, 10 * epoch, base)
        one.note_copied(home, epoch)
    # The third has the second's messages, which the fourth lacks.
    assert [one.successor(home, epoch).events_seq for epoch in (1, 2, 3)] == [20, 20, 20]


def test_a_lease_that_has_ended_is_not_renewed(join: Join) -> None:
    one, two = join("one"), join("two")
    assert one.renew(LONG_S, Load(open_homes=3, cpu_share=0.5))
    found = two.host_named("one")
    assert (found.is_alive, found.load.open_homes, found.load.cpu_share) == (True, 3, 0.5)
    one.leave()
    assert not one.renew(LONG_S, Load())
    assert not two.host_named("one").is_alive
    before = one.incarnation
    assert one.join(url="http://one", folder_id="one", lease_s=LONG_S)
    assert one.renew(LONG_S, Load())
    assert one.incarnation != before


def test_a_name_belongs_to_one_folder_while_its_lease_lasts(join: Join, url: str, tmp_path: Path) -> None:
    one = join("one")
    with FleetRegistry(tmp_path / "other", url, "one") as other:
        assert not other.join(url="http://other", folder_id="other", lease_s=LONG_S)
        # The process that had this folder was killed: its lock on it is free.
        assert other.join(url="http://one", folder_id="one", lease_s=LONG_S)
        assert not one.renew(LONG_S, Load())
        other.leave()
        assert other.join(url="http://other", folder_id="other", lease_s=LONG_S)


def test_a_host_that_froze_in_the_middle_of_a_change_holds_up_no_other(
    join: Join, url: str, tmp_path: Path
) -> None:
    join("one").add("ada")
    registry = connect(url)
    frozen = registry.connect()
    frozen.execute(sa.text("UPDATE homes SET problem = 'none'"))

    def count_homes() -> int:
        with FleetRegistry(tmp_path / "two", url, "two") as two:
            return two.count()

    for _ in range(5):
        with suppress(FleetUnreachableError):
            assert count_homes() == 1
            break
    else:
        pytest.fail("the change still holds its locks")
    # When it wakes, its change is lost.
    with pytest.raises(InternalError, match="idle-in-transaction timeout"):
        frozen.execute(sa.text("SELECT 1"))
    frozen.invalidate()
    frozen.close()
    registry.dispose()


def test_only_homes_with_work_of_a_host_that_is_gone_are_orphans(join: Join) -> None:
    one, two = join("one"), join("two")
    ids = {name: one.add(name).id for name in ("open", "idle", "kept", "due", "later", "new")}
    for name in ("open", "idle", "kept", "due", "later"):
        one.acquire(ids[name], None)
    one.note_opened(ids["kept"], keeps_open=True)
    one.note_closed(ids["idle"])
    one.note_closed(ids["kept"])
    one.note_closed(ids["due"], clock.now() - timedelta(seconds=1))
    one.note_closed(ids["later"], clock.now() + timedelta(hours=1))
    assert two.find_orphans(10) == []
    # Schedules of closed homes are their owner's engine's.
    assert set(one.find_left_open()) == {ids["open"], ids["kept"]}
    one.place(ids["due"], "two")
    one.hand_over(ids["due"])
    assert two.find_left_open() == [ids["due"]]
    two.place(ids["due"], "one")
    two.hand_over(ids["due"])
    one.leave()
    assert set(two.find_orphans(10)) == {ids["open"], ids["kept"], ids["due"]}
    assert len(two.find_orphans(2)) == 2


def test_a_home_moves_when_its_owner_lets_go_of_it_or_is_gone(join: Join) -> None:
    one, two = join("one"), join("two")
    home = one.add("ada").id
    one.place(home, "two")
    assert one.get_named("ada").host == "two"
    held = two.acquire(home, None)
    assert held is not None
    one.place(home, "one")
    assert (one.get_named("ada").host, one.get_named("ada").moving_to, two.find_moving(10)) == (
        "two",
        "one",
        [home],
    )
    assert one.hand_over(home) is None
    assert two.hand_over(home) == "one"
    assert two.find_moving(10) == []
    with pytest.raises(HomeElsewhereError):
        two.acquire(home, held.epoch)
    # It was never opened there, and comes back: the folder here is still the newest.
    two.place(home, "two")
    assert one.hand_over(home) == "two"
    back = two.acquire(home, held.epoch)
    assert back is not None
    assert (back.epoch, back.is_local) == (held.epoch, True)
    two.leave()
    one.place(home, "one")
    assert one.get_named("ada").host == "one"
    with pytest.raises(UsageError, match="not alive"):
        one.place(home, "two")
    one.set_draining("one")
    assert one.host_named("one").is_draining


def test_an_older_host_does_not_get_what_a_newer_one_wrote(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = join("newer")
    home = newer.add("ada").id
    newer.acquire(home, None)
    newer.note_copied(home, 1)
    newer.leave()
    monkeypatch.setattr("nexus.hosting.fleet.registry.known_schema", lambda: 1)
    older = join("older")
    assert older.find_orphans(10) == []
    with pytest.raises(HomeError, match="newer"):
        older.acquire(home, None)


def test_a_postgres_that_is_away_is_a_refusal_for_the_moment(join: Join, postgres: Postgres) -> None:
    one = join("one")
    postgres.pause()
    try:
        with pytest.raises(FleetUnreachableError):
            one.get_named("ada")
    finally:
        postgres.resume()
    assert one.renew(LONG_S, Load())
