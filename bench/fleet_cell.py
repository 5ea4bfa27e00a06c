"""A cell of a fleet as discrete events: some hosts with their homes, and the storage and Postgres they share.

A heap of timed calls is all the machinery. SimPy is maintained and would do, but a queue with so many places
and a call after a while need no library, and a day of a cell is a million events, for which processes written
as generators would take several times as long.
"""

import random
from array import array
from collections.abc import Callable
from itertools import islice
from math import ceil

from fleet_parts import (
    DAY_S,
    HOURS,
    SAMPLE_S,
    Host,
    Lost,
    Message,
    Opened,
    Parameters,
    Sample,
    Seen,
    Slots,
    Timeline,
)


class Cell:
    """Runs one. The same seed gives the same day."""

    def __init__(self, given: Parameters, seed: int = 1) -> None:
        self.given = given
        self.seen = Seen()
        self.time = Timeline()
        self._chance = random.Random(seed)
        self.hosts = [self._host(number) for number in range(given.hosts)]
        self._opened: dict[int, Opened] = {}
        self._lost: dict[int, Lost] = {}
        self._routing: set[Message] = set()
        self._regular = int(given.homes * given.regular_share)
        self._owner = array("l", (home % given.hosts for home in range(given.homes)))
        self._disk = array("l", (self._first_disk(home) for home in range(given.homes)))
        mean = given.size_sigma**2 / 2
        self._size_mib = array(
            "d",
            (
                given.size_mib * self._chance.lognormvariate(-mean, given.size_sigma)
                for _ in range(given.homes)
            ),
        )
        share = given.storage_mib_per_s / given.times
        # As many at a time as it takes to use all of it.
        self._storage = Slots(ceil(share / given.restore_mib_per_s))
        self._restore_mib_per_s = min(given.restore_mib_per_s, share / self._storage.size)
        self._spent_ms = 0.0
        self._asked_mib = 0.0
        self._load = self._steady_load()

    # What is asked of it.

    def arrivals(self, until_s: float) -> None:
        """Let people visit their homes until then."""
        self._next_visit(until_s)

    def failures(self, until_s: float) -> None:
        """Let hosts die at random until then."""
        for host in self.hosts:
            at_s = self._chance.expovariate(1 / (self.given.mtbf_days * DAY_S))
            while at_s < until_s:
                self.time.at(at_s, self.kill, host)
                at_s += self._chance.expovariate(1 / (self.given.mtbf_days * DAY_S))

    def sampling(self, until_s: float) -> None:
        for number in range(1, int(until_s / SAMPLE_S) + 1):
            self.time.at(number * SAMPLE_S, self._sample)

    def upgrade(self) -> None:
        """Drain and restart every host, a few at a time."""
        began_s, waiting, under_way = self.time.now, list(self.hosts), [0]

        def more() -> None:
            while waiting and under_way[0] < self.given.upgraded_at_once:
                host = waiting.pop(0)
                if host.is_alive:
                    under_way[0] += 1
                    self._drain(host, done)
            if not waiting and not under_way[0]:
                self.seen.upgrade_s = self.time.now - began_s

        def done() -> None:
            under_way[0] -= 1
            more()

        more()

    def receive(self, home: int) -> None:
        """A message arrives at some host, which looks up whose home that is."""
        message = Message(home, self.time.now)
        self.seen.received += 1
        self._routing.add(message)
        self.time.after(self._asked_s(self.given.message_ms), self._route, message)

    def kill(self, host: Host) -> None:
        """A host is gone with its disk, and what it worked on waits until its lease is over."""
        if not host.is_alive:
            return
        given, now = self.given, self.time.now
        self.seen.failures += 1
        beat_s = given.lease_s / 4
        last_s = host.beat_phase_s + (now - host.beat_phase_s) // beat_s * beat_s
        host.is_alive, host.disk, host.lease_until_s = False, host.disk + 1, last_s + given.lease_s
        self._abandon(host)
        self.time.after(given.repair_s, self._revive, host)

    def waiting(self) -> set[Message]:
        """Every message without an answer, wherever it is."""
        found = set(self._routing)
        for opened in self._opened.values():
            found.update(opened.waiting, opened.working.values())
        for lost in self._lost.values():
            found.update(lost.messages)
        return found

    # Messages.

    def _next_visit(self, until_s: float) -> None:
        given, now = self.given, self.time.now
        active = given.regular_share * given.regular_days + (1 - given.regular_share) * given.rare_days
        visits_a_day = given.homes * active * given.visits_per_day
        highest = visits_a_day * max(HOURS) / 100 / 3600
        at_s = now + self._chance.expovariate(highest)
        # Thinning: of arrivals at the highest rate, the share of the hour's rate is kept.
        while at_s < until_s and self._chance.random() * max(HOURS) > HOURS[int(at_s / 3600) % 24]:
            at_s += self._chance.expovariate(highest)
        if at_s < until_s:
            self.time.at(at_s, self._visit, until_s)

    def _visit(self, until_s: float) -> None:
        given = self.given
        regular = given.regular_share * given.regular_days
        is_regular = self._chance.random() * (regular + (1 - given.regular_share) * given.rare_days) < regular
        first, end = (0, self._regular) if is_regular else (self._regular, given.homes)
        home = self._chance.randrange(first, end) if end > first else self._chance.randrange(given.homes)
        self._say(home, given.messages_per_visit)
        self._next_visit(until_s)

    def _say(self, home: int, left: int) -> None:
        self.receive(home)
        if left > 1:
            gap_s = self._chance.expovariate(1 / self.given.gap_s)
            self.time.after(gap_s, self._say, home, left - 1)

    def _route(self, message: Message) -> None:
        home = message.home
        host = self.hosts[self._owner[home]]
        if (opened := self._opened.get(home)) is not None:
            self._routing.discard(message)
            self._hand_over(opened, message)
        elif (lost := self._lost.get(home)) is not None:
            self._routing.discard(message)
            lost.messages.append(message)
            if lost.host.lease_until_s <= self.time.now:
                self._take_over(home, self._least_loaded())
        elif host.takes_homes:
            self._routing.discard(message)
            self._open(home, host, [message])
        elif not host.is_alive and host.lease_until_s > self.time.now:
            self.time.at(host.lease_until_s, self._route, message)
        elif (chosen := self._least_loaded()) is not None:
            self._routing.discard(message)
            self._open(home, chosen, [message])
        else:
            self.time.after(1.0, self._route, message)

    def _hand_over(self, opened: Opened, message: Message) -> None:
        if not opened.is_open:
            opened.waiting.append(message)
            return
        opened.working[id(message)] = message
        opened.used_s = self.time.now
        opened.host.opened.move_to_end(opened.home)
        turned_s = self._compute(opened.host, self.given.turn_cpu_s)
        self.time.at(turned_s + self.given.model_s, self._answer, opened, message)

    def _answer(self, opened: Opened, message: Message) -> None:
        if opened.is_over:
            return  # its host died before: the message is handed over again elsewhere
        del opened.working[id(message)]
        given, now = self.given, self.time.now
        self.seen.answered += 1
        self.seen.arrived_s.append(message.arrived_s)
        self.seen.waits_s.append(now - message.arrived_s - given.turn_cpu_s - given.model_s)
        opened.used_s = now
        self._compute(opened.host, given.later_cpu_s)
        if opened.host.is_draining and not opened.working:
            self._close(opened)

    def _compute(self, host: Host, cost_s: float) -> float:
        """When a host will have done it: one thing after the other."""
        host.free_s = max(host.free_s, self.time.now) + cost_s
        host.busy_s += cost_s
        return host.free_s

    # Homes.

    def _open(self, home: int, host: Host, waiting: list[Message], lost_s: float | None = None) -> None:
        self._owner[home] = host.number
        opened = Opened(home, host, self.time.now, lost_s, waiting)
        self._opened[home] = host.opened[home] = opened
        self.time.after(self._asked_s(self.given.visit_ms), self._acquired, opened)

    def _acquired(self, opened: Opened) -> None:
        if not opened.is_over:
            opened.host.opens.take(lambda: self._begin(opened))

    def _begin(self, opened: Opened) -> None:
        if opened.is_over:
            return  # the host it was to be opened on is gone, and its places with it
        if self._disk[opened.home] == self._disk_of(opened.host):
            self._load_home(opened)
        else:
            self.seen.restores += 1
            self._asked_mib += 2 * self._size_mib[opened.home]  # there and back: its new owner's copy
            self._storage.take(lambda: self._fetch(opened))

    def _fetch(self, opened: Opened) -> None:
        if opened.is_over:
            self._storage.give()
            return
        opened.is_fetching = True
        size_mib = self._size_mib[opened.home]
        copy_mib_per_s = min(self.given.copy_mib_per_s, self._restore_mib_per_s)
        took_s = self.given.restore_fixed_s + size_mib / self._restore_mib_per_s + size_mib / copy_mib_per_s
        self.time.after(took_s, self._fetched, opened)

    def _fetched(self, opened: Opened) -> None:
        if opened.is_over:
            return  # given back when its host died
        opened.is_fetching = False
        self._storage.give()
        reconcile_s = self._size_mib[opened.home] * self.given.reconcile_s_per_mib
        self.time.after(reconcile_s, self._load_home, opened)

    def _load_home(self, opened: Opened) -> None:
        if opened.is_over:
            return
        self._make_room(opened.host)
        self.time.at(self._compute(opened.host, self.given.open_cpu_s), self._ready, opened)

    def _ready(self, opened: Opened) -> None:
        if opened.is_over:
            return
        now, host = self.time.now, opened.host
        host.opens.give()
        opened.is_open, opened.used_s = True, now
        self._disk[opened.home] = self._disk_of(host)
        self.seen.opens_s.append(now - opened.asked_s)
        if opened.lost_s is not None:
            self.seen.takeovers_s.append((opened.lost_s, now - opened.lost_s))
        if opened.is_taken:
            host.taking -= 1
            if not host.taking and host.takes_homes:
                self._take_some(host)
        waiting, opened.waiting = opened.waiting, []
        for message in waiting:
            self._hand_over(opened, message)
        self.time.after(self.given.idle_s, self._look, opened)
        if host.is_draining and not opened.working:
            self._close(opened)

    def _look(self, opened: Opened) -> None:
        """Close a home that has not been used for a while."""
        if opened.is_over:
            return
        left_s = opened.used_s + self.given.idle_s - self.time.now
        if opened.working or left_s > 0.001:
            self.time.after(max(1.0, left_s), self._look, opened)
        else:
            self._close(opened)

    def _make_room(self, host: Host) -> None:
        if len(host.opened) > self.given.most_open:
            idle = (each for each in host.opened.values() if each.is_open and not each.working)
            if (longest := next(idle, None)) is not None:
                self._close(longest)

    def _close(self, opened: Opened) -> None:
        opened.is_over = True
        del self._opened[opened.home], opened.host.opened[opened.home]

    # Hosts.

    def _host(self, number: int) -> Host:
        given = self.given
        beat_s = self._chance.uniform(0, given.lease_s / 4) if given.jitter else 0.0
        watch_s = self._chance.uniform(0, given.watch_s) if given.jitter else 0.0
        return Host(number, Slots(given.opens_at_once), beat_s, watch_s)

    def _least_loaded(self) -> Host | None:
        able = [host for host in self.hosts if host.takes_homes]
        return min(able, key=lambda host: (len(host.opened), host.number)) if able else None

    def _abandon(self, host: Host) -> None:
        """Everything that a host has open is lost, until others take it over."""
        for opened in host.opened.values():
            self._lose(opened)
        host.opened.clear()
        host.opens, host.free_s, host.taking = Slots(self.given.opens_at_once), self.time.now, 0
        if self._lost:
            for each in self.hosts:
                self._watch_at_next(each)

    def _lose(self, opened: Opened) -> None:
        opened.is_over = True
        if opened.is_fetching:
            self._storage.give()
        del self._opened[opened.home]
        messages = [*opened.working.values(), *opened.waiting]
        since_s = self.time.now if opened.lost_s is None else opened.lost_s
        self._lost[opened.home] = Lost(opened.host, since_s, messages)

    def _take_over(self, home: int, host: Host | None) -> None:
        if host is not None:
            lost = self._lost.pop(home)
            self._open(home, host, lost.messages, lost.since_s)

    def _watch_at_next(self, host: Host) -> None:
        watch_s, phase_s = self.given.watch_s, host.watch_phase_s
        if not host.is_watching:
            looked = (self.time.now - phase_s) // watch_s
            self.time.at(phase_s + (looked + 1) * watch_s, self._watch, host)
        host.is_watching = True

    def _watch(self, host: Host) -> None:
        """Take a few of the homes of dead hosts."""
        if not self._lost:
            host.is_watching = False
            return
        if host.takes_homes and not host.taking:
            self._take_some(host)
        self.time.after(self.given.watch_s, self._watch, host)

    def _take_some(self, host: Host) -> None:
        ended = (home for home, lost in self._lost.items() if lost.host.lease_until_s <= self.time.now)
        for home in list(islice(ended, self.given.taken_at_once)):
            self._take_over(home, host)
            self._opened[home].is_taken = True
            host.taking += 1

    def _revive(self, host: Host) -> None:
        host.is_alive, host.is_draining = True, False

    def _drain(self, host: Host, then: Callable[[], None]) -> None:
        host.is_draining = True
        until_s = self.time.now + self.given.drain_s
        if self.given.drain_moves_closed:
            self._move_away(host)
        for opened in list(host.opened.values()):
            if opened.is_open and not opened.working:
                self._close(opened)

        def look() -> None:
            if host.opened and self.time.now < until_s and host.is_alive:
                self.time.after(1.0, look)
                return
            if not host.is_alive:
                then()  # it died meanwhile, and is repaired
                return
            host.is_alive, host.lease_until_s = False, self.time.now
            self._abandon(host)
            self.time.after(self.given.restart_s, back)

        def back() -> None:
            self._revive(host)
            then()

        look()

    def _move_away(self, host: Host) -> None:
        """Place the closed homes of a host on others, which fetch them when they are next used."""
        others = [each for each in self.hosts if each.takes_homes]
        for home in range(self.given.homes):
            if others and self._owner[home] == host.number and home not in self._opened:
                self._owner[home] = others[home % len(others)].number
                self._spent_ms += self.given.visit_ms

    def _first_disk(self, home: int) -> int:
        """Homes that nobody used for days were evicted, and are in the storage alone."""
        given = self.given
        days = given.regular_days if home < self._regular else given.rare_days
        is_evicted = self._chance.random() < (1 - days) ** given.evict_after_days
        self.seen.evicted += is_evicted
        return -1 if is_evicted else self._owner[home] * 1_000

    @staticmethod
    def _disk_of(host: Host) -> int:
        return host.number * 1_000 + host.disk

    # Postgres, and what is seen.

    def _steady_load(self) -> float:
        """What heartbeats and looking for dead hosts' homes take of Postgres."""
        given = self.given
        a_host = given.renew_ms / (given.lease_s / 4) + given.look_ms / given.watch_s
        return given.hosts * given.times * a_host / 1000 / given.postgres_cores

    def _asked_s(self, cost_ms: float) -> float:
        """Ask Postgres for something. It takes longer the busier it was in the last seconds."""
        self._spent_ms += cost_ms
        return cost_ms / 1000 / (1 - min(self._load, 0.99))

    def _sample(self) -> None:
        given, seen = self.given, self.seen
        spent = self._spent_ms * given.times / 1000 / SAMPLE_S / given.postgres_cores
        self._load = self._steady_load() + spent
        self._spent_ms = 0.0
        queued = sum(len(host.opens.waiting) for host in self.hosts)
        seen.samples.append(
            Sample(
                time_s=self.time.now,
                open_homes=len(self._opened),
                fullest_host=max(len(host.opened) for host in self.hosts),
                restoring=self._storage.busy,
                waiting_to_open=queued + len(self._storage.waiting),
                unanswered=seen.received - seen.answered,
                lost_homes=len(self._lost),
                processor=max(host.busy_s for host in self.hosts) / SAMPLE_S,
                storage=self._asked_mib * given.times / SAMPLE_S / given.storage_mib_per_s,
                postgres=self._load,
            )
        )
        self._asked_mib = 0.0
        for host in self.hosts:
            host.busy_s = 0.0
