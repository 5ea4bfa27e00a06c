"""What happens once in the month, beside the conversations."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

from nexus.demo import people, programs
from nexus.demo.answers import Answers, Status
from nexus.demo.month import Scene, Work, conclusions, start_of
from nexus.demo.people import Concluding
from nexus.home import Home
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.views import entities
from nexus.memory.views.names import find_family
from nexus.memory.writing import Provenance

Happening = Callable[[], Awaitable[None]]


class Happenings:
    """Waits for the days on which something particular happens."""

    def __init__(self, home: Home, answers: Answers, until: datetime) -> None:
        self._home = home
        self._answers = answers
        self._telling = answers.telling
        start = start_of(until)
        concluding = Concluding(telling=self._telling)
        concluded = [
            (moment, partial(concluding.observe if kind == "observation" else concluding.model, told))
            for moment, kind, told in conclusions(until)
        ]
        days: list[tuple[datetime, Happening]] = [
            (start + timedelta(days=day), happening)
            for day, happening in (
                (6, partial(self._revise, 2)),
                (8, self._let_tomas_in),
                (11.6, self._merge),
                (13, self._refuse_a_stranger),
                (16.4, partial(self._go_wrong, "failed")),
                (18, partial(self._revise, 3)),
                (20.5, partial(self._go_wrong, "cancelled")),
                (22.8, self._spend_too_much),
                (24, self._tell_brams_apart),
                (26.5, self._close_parcels),
            )
        ]
        self._waiting = sorted([*days, *concluded], key=lambda happening: happening[0])

    async def until(self, moment: datetime) -> None:
        """Let happen what has not happened by then."""
        while self._waiting and self._waiting[0][0] <= moment:
            await self._waiting.pop(0)[1]()

    async def _revise(self, version: int) -> None:
        self._answers.programs["tag-errands"] = await programs.revise(self._home, self._telling, version)

    async def _let_tomas_in(self) -> None:
        await people.let_in(self._telling, "Tomas Reyes", "signal")

    async def _merge(self) -> None:
        merge = {"source": "P. Raman", "target": "Priya Raman", "reason": "the same address"}
        await self._telling.memory.run("merge", merge, Provenance(actor=people.OWNER_SENDER, kind="owner"))

    async def _refuse_a_stranger(self) -> None:
        """Somebody unknown is told a code, and nobody has let them in."""
        seen = Seen(channel="signal", identifier="+31612345699", display_name="Unknown number")
        sender = await self._telling.ledgers.identity.write(senders.resolve, seen=seen)
        await self._telling.ledgers.identity.write(
            access.ask, contact_id=sender.contact_id, now=self._telling.calendar.now
        )
        await self._answers.deny(seen, "Hello, is this the assistant of Mira? I have a parcel for her.")

    async def _go_wrong(self, status: Status) -> None:
        scene = Scene(
            at=self._telling.calendar.now(),
            channel="cli",
            thread="work",
            lines=(),
            work=Work(tools=(("read", "tidal-room/plan.md"),)),
        )
        text = "Read the whole plan of the Tidal Room and tell me what contradicts itself."
        await self._answers.answer(scene, text, "", work=True, status=status)

    async def _spend_too_much(self) -> None:
        """A message whose answer costs more than one message may."""
        files = tuple(("read", f"invoices/{year}.csv") for year in range(2014, 2026))
        scene = Scene(
            at=self._telling.calendar.now(), channel="cli", thread="work", lines=(), work=Work(tools=files)
        )
        text = "Read every invoice that we ever wrote, and tell me what oak has cost us over the years."
        await self._answers.answer(scene, text, "", work=True, status="failed", refused=True)

    async def _tell_brams_apart(self) -> None:
        """Two of the merge candidates are not one; the rest is left for whoever looks."""
        same = await find_family(self._telling.ledgers, "Bram de Witt")
        for pair in await entities.load_candidates(self._telling.ledgers, entity_ids=same):
            reject = {"candidate": pair.id}
            await self._telling.memory.run(
                "reject", reject, Provenance(actor=people.OWNER_SENDER, kind="owner")
            )

    async def _close_parcels(self) -> None:
        self._answers.parcels_are_gone = True
