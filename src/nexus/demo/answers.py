"""What the agent was asked in the month: each message as a request with its stages, hooks and runs."""

from dataclasses import dataclass
from typing import Literal

from nexus import clock
from nexus.demo import conversations
from nexus.demo.month import Scene
from nexus.demo.narration import Telling
from nexus.demo.people import OWNER_SENDER
from nexus.demo.programs import remind, used
from nexus.demo.runs import Run, Runs
from nexus.demo.tracing import LOCAL, MANAGER, WORKER, Caused, Tracing
from nexus.ledgers import events
from nexus.ledgers.events import NewEvent, Participant
from nexus.ledgers.identity.senders import Seen
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.automations import Automation
from nexus.request import Access, Agent, Event, Request

_OWNER_ACCESS = Access(level="owner", tools=None, network=True, memory="all", sessions=("*",))
_GONE = "ScriptError: https://parcels.example/open answered 410 Gone"
_OVERLOADED = "529 The provider is overloaded"
Status = Literal["done", "failed", "cancelled"]


@dataclass(kw_only=True)
class Answers:
    """Writes the requests of the month."""

    telling: Telling
    programs: dict[str, Automation]
    error_limit: int
    spoken: dict[str, int]
    """For each session: how many turns it has had."""
    parcels_are_gone: bool = False
    """Whether the site that the parcel tracker asks has been shut down by now."""
    failures: int = 0

    async def converse(self, scene: Scene) -> None:
        """Let the owner talk with the agent, message by message."""
        pairs = list(zip(scene.lines[::2], scene.lines[1::2], strict=True))
        said: list[str] = []
        request_id = None
        for number, ((_, text), (_, answer)) in enumerate(pairs):
            heard, request_id = await self.answer(scene, text, answer, work=number == 0)
            self.telling.request_id = request_id
            said += heard
            self.telling.calendar.spend(self.telling.draw.uniform(15_000, 120_000))
        await conversations.learn(self.telling, scene, said, request_id)

    async def answer(
        self,
        scene: Scene,
        text: str,
        answer: str,
        *,
        work: bool,
        status: Status = "done",
        refused: bool = False,
    ) -> tuple[list[str], str]:
        """One message and its answer: the ids of their events, and of the request."""
        request = await self._received(scene, text)
        tracing = Tracing(self.telling, request, self.error_limit)
        await self._before(request, tracing, scene if work else None)
        error = _OVERLOADED if status == "failed" and not refused else None
        run = Run(
            label=scene.thread,
            role="manager",
            said=text,
            answer=answer,
            tools=scene.work.tools if work else (),
            workers=scene.work.workers if work else (),
            event_id=request.event.id,
            model=self._model(scene),
            error="Canceled." if status == "cancelled" else error,
            refused=refused,
            turns_before=self.spoken.get(scene.thread, 0),
        )
        runs = Runs(self.telling, request, tracing)
        execution_id = await runs.run(run, status)
        self.spoken[scene.thread] = run.turns_before + 1
        told = [str(request.event.id)]
        if status == "done" and work:
            await used(self.telling, request, scene.work.memories)
        if status == "done":
            told.append(await self._after(request, tracing, runs, run, execution_id))
        await tracing.span("stage", "finalize", self.telling.draw.uniform(1, 6))
        await self._end(request, status, run.error)
        return told, request.request_id

    async def deny(self, seen: Seen, text: str) -> None:
        """A message of somebody who may not talk to the agent."""
        scene = Scene(at=self.telling.calendar.now(), channel=seen.channel, thread=seen.identifier, lines=())
        request = await self._received(scene, text, seen.identifier)
        tracing = Tracing(self.telling, request, self.error_limit)
        for name in ("receiveEvent", "resolveIdentity", "resolveAccess"):
            outcome = "denied" if name == "resolveAccess" else "ok"
            await tracing.span("stage", name, self.telling.draw.uniform(0.6, 5), outcome=outcome)
        await self.telling.ledgers.runtime.write(
            requests.end, request_id=request.request_id, status="denied", error="an unknown sender"
        )

    def _model(self, scene: Scene) -> str:
        """Small talk goes to a small model, some of it to one of one's own."""
        if scene.summary or not scene.lines:
            return MANAGER
        return LOCAL if self.telling.draw.random() < 0.08 else WORKER

    async def _received(self, scene: Scene, text: str, sender: str = OWNER_SENDER) -> Request:
        thread_id = await conversations.thread(self.telling, scene)
        new = NewEvent(
            channel=scene.channel,
            content=text,
            thread_id=thread_id,
            sender=sender,
            participants=(Participant(role="sender", identifier=sender),),
        )
        event_id = (
            await self.telling.ledgers.events.write(
                events.append, events=[new], now=self.telling.calendar.now
            )
        )[0]
        event = Event(content=text, id=event_id, thread_id=thread_id, channel=scene.channel, sender_id=sender)
        request = Request(
            event=event,
            agent=Agent(session_label=scene.thread),
            principal_id=self.telling.owner_id if sender == OWNER_SENDER else None,
            access=_OWNER_ACCESS if sender == OWNER_SENDER else Access(),
            created_at=clock.timestamp(self.telling.calendar.now()),
        )
        await self.telling.ledgers.runtime.write(requests.create, request=request)
        return request

    async def _before(self, request: Request, tracing: Tracing, scene: Scene | None) -> None:
        """The stages up to the run, with what automations add on the way."""
        draw = self.telling.draw
        for name in ("receiveEvent", "resolveIdentity", "resolveAccess"):
            await tracing.span("stage", name, draw.uniform(0.6, 5))
        tag = _tag(request.event.content)
        await tracing.invoke(
            self.programs["tag-errands"], draw.uniform(9, 35), result={"enrich": {"tag": tag}}
        )
        request.enrichment["tag"] = tag
        await tracing.span("stage", "runAutomations", draw.uniform(10, 40))
        await tracing.span("stage", "assembleContext", draw.uniform(2, 12))
        if scene and scene.work.memories:
            await remind(self.telling, tracing, self.programs["remind"], request, scene.work.memories)
        await self.telling.ledgers.runtime.write(requests.update, request=request)
        await tracing.span("stage", "runAgent", draw.uniform(3, 15))

    async def _after(
        self, request: Request, tracing: Tracing, runs: Runs, run: Run, execution_id: str
    ) -> str:
        """The answer goes out, and what listens for answers runs."""
        answer = NewEvent(
            channel=request.event.channel or "cli",
            content=run.answer,
            direction="outbound",
            thread_id=request.event.thread_id,
            external_id=execution_id,
            sender="nexus",
            reply_to_event_id=request.event.id,
            request_id=request.request_id,
        )
        event_id = (
            await self.telling.ledgers.events.write(
                events.append, events=[answer], now=self.telling.calendar.now
            )
        )[0]
        await tracing.span("stage", "deliverResponse", self.telling.draw.uniform(2, 9))
        if run.tools or run.workers:
            await self._note(tracing, runs, run)
        await self._track(tracing)
        return event_id

    async def _note(self, tracing: Tracing, runs: Runs, run: Run) -> None:
        """The automation that keeps notes asks a model of its own."""
        notes = self.programs["evening-notes"]
        invocation_id = await tracing.invoke(notes, self.telling.draw.uniform(900, 2_400), result={})
        label = f"meeseeks:evening-notes:{run.label}"
        work = Run(
            label=label,
            role="worker",
            said=f"Write down in one line what this was about: {run.said}",
            answer=f"Asked: {run.said[:60]}",
            model=WORKER,
            caused=Caused(automation=notes.name, invocation_id=invocation_id),
            turns_before=self.spoken.get(label, 0),
        )
        await runs.run(work)
        self.spoken[label] = work.turns_before + 1

    async def _track(self, tracing: Tracing) -> None:
        """The automation that follows parcels, until the site that it asks is gone."""
        tracker, took_ms = self.programs["parcel-tracker"], self.telling.draw.uniform(120, 700)
        if not self.parcels_are_gone:
            await tracing.invoke(tracker, took_ms, result={}, output="GET /open\n0 parcels\n")
        elif self.failures < self.error_limit:
            self.failures += 1
            await tracing.invoke(tracker, took_ms, status="failed", error=_GONE, output="GET /open\n")

    async def _end(self, request: Request, status: Status, error: str | None) -> None:
        runtime, id_ = self.telling.ledgers.runtime, request.request_id
        await runtime.write(requests.enter_stage, request_id=id_, stage="finalize")
        await runtime.write(requests.end, request_id=id_, status=status, error=error)


def _tag(text: str) -> str:
    words = {
        "list": "shopping",
        "weather": "weather",
        "exercises": "health",
        "Tidal": "work",
        "kitchen": "home",
    }
    return next((tag for word, tag in words.items() if word in text), "other")
