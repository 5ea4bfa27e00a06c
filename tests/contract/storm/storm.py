"""One storm, from its seed to its verdict."""

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from contract.postgres import Postgres
from nexus import clock
from nexus.testing import ModelServer

from . import place as places
from . import verdict
from .place import LEASE_MS, Place
from .talk import Talk, script

_MESSAGES_IN_A_SECOND = 4
# When people can't get through for so long, the next fault strikes all the same.
_STANDSTILL_S = 120.0
# A circuit that opened on a slow machine is told and closes by itself: nothing is lost by it.
_CLOSES_BY_ITSELF = re.compile(r": (stopped after \d+ errors? in a row|trying again after errors), since ")
_CLOCKS_S = (7_200.0, 40 * 86_400.0, -3_600.0)


def seed_of_the_day() -> int:
    """So that every day's storm is another one, and one day's can be repeated."""
    return int(time.strftime("%Y%m%d", time.gmtime()))


@dataclass(frozen=True, kw_only=True)
class Weather:
    """What a storm is made of. The same weather brings the same messages and faults."""

    seed: int
    database: str = "sqlite"
    messages: int = 30
    faults: int = 4
    sessions: int = 6
    limit_s: float = 0.0
    """A storm whose faults have not all struck after so long has failed. Zero: it may take any time."""
    older: str = ""
    """The `src` folder of an older version: it begins, and the home is upgraded in the middle."""

    def __str__(self) -> str:
        older = f" --older {self.older}" if self.older else ""
        return (
            f"PYTHONPATH=tests python -m contract.storm --seed {self.seed} --database {self.database}"
            f" --messages {self.messages} --faults {self.faults} --sessions {self.sessions}{older}"
        )

    @property
    def gap_s(self) -> float:
        """How long people wait between two messages, so that all of them together say some in a second."""
        return self.sessions / _MESSAGES_IN_A_SECOND


@dataclass
class Report:
    """What came of a storm."""

    weather: Weather
    accepted: int = 0
    struck: Counter[str] = field(default_factory=Counter[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    refused: Counter[str] = field(default_factory=Counter[str])
    excused: int = 0
    """Background runs that failed because the models were away."""
    problems: list[str] = field(default_factory=list[str])
    starts_s: list[float] = field(default_factory=list[float])
    took_s: float = 0.0
    kept: Path | None = None

    def __str__(self) -> str:
        faults = f"{self.struck.total()} of {self.weather.faults} faults"
        lines = [
            str(self.weather),
            f"{self.accepted} messages, {faults}, {self.took_s:.0f} s",
            f"faults: {dict(sorted(self.struck.items()))}; refused for a while: {dict(self.refused)}",
            f"background runs that failed while the models were away: {self.excused}",
            f"starts took {min(self.starts_s, default=0):.1f} to {max(self.starts_s, default=0):.1f} s",
            *(f"without {fault}: {reason}" for fault, reason in self.skipped.items()),
            *self.problems,
        ]
        if self.problems:
            lines.append(f"The home is in {self.kept}.")
        return "\n".join(lines)


def rage(weather: Weather, folder: Path, postgres: Postgres | None, *, loud: bool = False) -> Report:
    """Let a storm pass over a new home."""
    began = time.monotonic()
    report = Report(weather=weather)
    with ModelServer() as server:
        place = Place(folder, server, postgres, weather.older)
        try:
            script(server, str(place.effects), weather.seed)
            _Storm(place, weather, report, loud=loud).pass_over()
        except AssertionError as error:
            report.problems.append(str(error))
        finally:
            report.starts_s = place.starts_s
            place.kill()
            if report.problems:
                report.kept = place.keep()
            place.close()
    report.took_s = time.monotonic() - began
    return report


class _Storm:
    def __init__(self, place: Place, weather: Weather, report: Report, *, loud: bool) -> None:
        self._place = place
        self._weather = weather
        self._report = report
        self._loud = loud
        self._chance = random.Random(weather.seed)
        self._outages: list[tuple[str, str]] = []
        """When the models were away."""
        self._talk = Talk(
            place,
            weather.seed,
            sessions=weather.sessions,
            messages=weather.messages,
            gap_s=weather.gap_s,
            hear=self._say,
        )

    def pass_over(self) -> None:
        faults = self._faults()
        # Every kind before any comes again, so that few faults are many kinds.
        order: list[str] = []
        while len(order) < self._weather.faults:
            order += self._chance.sample(sorted(faults), len(faults))
        del order[self._weather.faults :]
        if self._weather.older:
            middle = len(order) // 2
            # What is known to be wrong with an older version is not what a storm is to find.
            mended = [name for name in ("models", "clock") if name in faults]
            order[:middle] = ["kill" if name in mended else name for name in order[:middle]]
            order[middle:] = ["upgrade", *mended, *order[middle:]][: len(order) - middle]
            faults["upgrade"] = self._upgrade
        else:
            self._report.skipped["upgrade"] = "there are no sources of an older version"
        began = time.monotonic()
        self._place.start()
        self._talk.start()
        try:
            for number, name in enumerate(order):
                took_s = time.monotonic() - began
                assert not self._weather.limit_s or took_s < self._weather.limit_s, (
                    f"only {number} of {len(order)} faults struck within {took_s:.0f} s"
                )
                # So that people talk before, during and after each fault, however long it takes.
                self._talk.allow(self._share(number + 2))
                self._await_messages(self._share(number + 1))
                time.sleep(self._chance.uniform(0.0, 2.0))
                faults[name]()
                self._place.await_service()
                self._report.struck[name] += 1
                # An older version says otherwise who works on what; all must be in order once it is upgraded.
                found = [] if self._place.is_older else verdict.settled(self._place)
                self._judge(f"fault {number + 1} ({name})", found)
            self._talk.allow(self._weather.messages)
        except BaseException:
            self._talk.stop()
            raise
        finally:
            self._talk.join()
            self._report.accepted = len(self._talk.accepted)
            self._report.refused = self._talk.refused
        self._judge("the end", verdict.quiet(self._place))
        self._judge("the end", verdict.final(self._place, self._talk, self._outages))
        self._report.excused = len(verdict.excused(self._place.home, self._outages))
        told = self._place.doctor()
        errors = [
            each["message"]
            for each in told["findings"]
            if each["level"] == "error" and not _CLOSES_BY_ITSELF.search(each["message"])
        ]
        self._judge("nexus doctor --deep", errors)
        self._place.stop()

    def _share(self, number: int) -> int:
        return self._weather.messages * number // (self._weather.faults + 1)

    def _await_messages(self, count: int) -> None:
        """Spread the faults over the messages, on a fast machine as on a slow one."""
        deadline = time.monotonic() + _STANDSTILL_S
        while len(self._talk.accepted) < count and time.monotonic() < deadline:
            time.sleep(0.05)

    def _judge(self, after: str, problems: list[str]) -> None:
        self._report.problems += [f"after {after}: {problem}" for problem in problems]
        self._say(f"{after}: {len(self._talk.accepted)} accepted, {len(problems)} problems")
        for problem in problems:
            self._say(f"    {problem}")

    def _say(self, text: str) -> None:
        if self._loud:
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: T201

    def _faults(self) -> dict[str, Callable[[], None]]:
        faults: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            "models": self._models,
        }
        if self._place.postgres is not None:
            faults["database"] = self._database
        for name, reason, fault in (
            ("clock", places.no_clock(), self._clock),
            ("disk", None if self._place.has_disk else places.no_disk() or "mounting failed", self._disk),
        ):
            if reason is None:
                faults[name] = fault
            else:
                self._report.skipped[name] = reason
        return faults

    def _kill(self) -> None:
        self._place.kill()
        self._place.start()

    def _upgrade(self) -> None:
        """The older program ends, in order or not, and this one goes on."""
        (self._place.stop if self._chance.random() < 0.5 else self._place.kill)()
        self._place.upgrade()
        self._place.start()

    def _models(self) -> None:
        """The model server goes away and comes back; the program may be started meanwhile."""
        began = clock.timestamp(clock.now())
        self._place.server.stop()
        try:
            time.sleep(self._chance.uniform(1, 8))
            if self._chance.random() < 0.3:
                self._kill()
        finally:
            self._place.server.start()
            self._outages.append((began, clock.timestamp(clock.now())))

    def _freeze(self) -> None:
        seconds = LEASE_MS / 1000 * self._chance.uniform(1.3, 2.5)
        self._place.freeze(seconds, second=self._chance.random() < 0.5)

    def _database(self) -> None:
        assert self._place.postgres is not None
        self._place.postgres.pause()
        time.sleep(self._chance.uniform(0.5, LEASE_MS / 1000 * 2))
        self._place.postgres.resume()

    def _clock(self) -> None:
        """The program gets another clock, which is put right while it runs, or after it died again."""
        self._place.kill()
        self._place.start(self._chance.choice(_CLOCKS_S))
        time.sleep(self._chance.uniform(1, 3))
        if self._chance.random() < 0.5:
            self._kill()
        else:
            self._place.set_clock_right()

    def _disk(self) -> None:
        self._place.fill_disk()
        time.sleep(self._chance.uniform(1, 4))
        self._place.empty_disk()
