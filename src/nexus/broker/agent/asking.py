"""Asking a model until one answers: retries of the same, then the next in order.

A provider that is busy or breaks off is asked again after the time that it names, or with growing pauses;
one that refuses is not, nor one that names a long time while another can be asked. In an outage of all of
them the run waits, and asks each again from time to time. What was streamed of an answer that broke off
is withdrawn.
"""

import asyncio
import errno
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestParameters

from nexus.backoff import next_pause_s
from nexus.broker import pace
from nexus.broker.agent import model_requests
from nexus.broker.agent.answering import Answering, Listener
from nexus.broker.agent.errors import (
    advise,
    describe,
    find_overflow,
    is_loading,
    is_outage,
    is_refusal,
    is_worth_repeating,
    refuses_images,
    refuses_streaming,
    refuses_tools,
    retry_after_s,
    system_number,
)
from nexus.broker.agent.fitting import Images
from nexus.broker.agent.knowledge import Knowledge, measure
from nexus.broker.agent.message_json import Block
from nexus.broker.agent.model_requests import Form, may_refuse_form
from nexus.broker.agent.models import Candidate
from nexus.broker.agent.records import Account, Attempt, Limits
from nexus.broker.agent.slots import BACKGROUND, Delay, Place, Slots, YieldedError
from nexus.errors import LimitError, ModelError, ModelRefusedError, NexusError
from nexus.ledgers.runtime.models import Capabilities
from nexus.runs import Delta
from nexus.watch import finish

# Kept with an answer: the model's name in the settings, which a provider doesn't know.
_ANSWERED_BY = "answered_by"
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
# Beyond it the next model is asked, where there is one.
_PATIENCE_S = 60.0
# In an outage.
_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 120.0
# A server of one's own that is being restarted costs nothing to ask.
_LONGEST_OWN_WAIT_S = 10.0
# While a server loads a model: how long between two looks, and how long in all.
_LOADING_PAUSE_S = 2.0
_LONGEST_LOADING_S = 900.0


def _nothing(_: float) -> None:
    pass


@dataclass(kw_only=True)
class Asking:
    """Gets a run's answers from its models."""

    candidates: list[Candidate]
    journal: Account
    limits: Limits
    stream: Listener
    redact: Callable[[str], str]
    deadline: float
    """On the monotonic clock: no pause goes beyond it."""
    extend: Callable[[float], None] = _nothing
    """Told how many seconds it waits in an outage: they are not the run's."""
    form: Form | None = None
    """The form that every answer is to have."""
    images: Images = field(default_factory=Images)
    knowledge: Knowledge = field(default_factory=Knowledge)
    slots: Slots = field(default_factory=Slots)
    clock_stopped: Callable[[], AbstractContextManager[None]] = nullcontext[None]
    """While it lasts, the time of the run, and of the invocation that started it, does not pass."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    measures: bool = False
    """Whether the speed of a model of somebody else's is measured too."""
    error: Exception | None = field(default=None, init=False)
    """Why the last attempt failed."""
    _failures: list[str] = field(default_factory=list[str], init=False)
    _advice: dict[str, None] = field(default_factory=dict[str, None], init=False)
    """What to do about them, each once."""
    _refusals: int = field(default=0, init=False)
    """How many models have refused in this round."""
    _outages: list["_Outage"] = field(default_factory=list["_Outage"], init=False)
    """Of the models that are out of reach in this round."""

    async def answer(
        self, blocks: Sequence[Block], parameters: ModelRequestParameters, own: int = 1
    ) -> ModelResponse:
        """The first answer that is complete; ModelError when there is none.

        The last `own` messages are of the present turn.
        """
        self._failures.clear()
        self._advice.clear()
        self.stream.publish(Delta(kind="begin"))
        rounds = 0
        while True:
            self._outages.clear()
            self._refusals = 0
            for candidate in list(self.candidates):
                retries = 0 if rounds else candidate.config.max_retries
                conversation = model_requests.Conversation(
                    blocks=blocks,
                    own=own,
                    parameters=parameters,
                    images=await self.images.of(image for block in blocks for image in block.images),
                )
                answer = await self._ask(candidate, conversation, retries)
                if answer is not None:
                    self._stay_with(candidate.name)
                    await self.journal.go_on()
                    self.stream.publish(Delta(kind="done"))
                    return replace(answer, metadata={**(answer.metadata or {}), _ANSWERED_BY: candidate.name})
            if not await self._wait_out_outage(rounds):
                raise self._none_answered()
            rounds += 1

    def resume(self, answer: ModelResponse) -> None:
        """Go on from an answer that an earlier process got."""
        self._stay_with(str((answer.metadata or {}).get(_ANSWERED_BY, "")))

    def _stay_with(self, name: str) -> None:
        """Ask the model that answered first from now on: a run doesn't sit out the same outage twice."""
        self.candidates.sort(key=lambda candidate: candidate.name != name)

    async def _wait_out_outage(self, rounds: int) -> bool:
        """Wait for the end of an outage; False where there is none, or it has lasted too long."""
        if not self.limits.outage_ms or not self._outages:
            return False
        last = self._outages[-1]
        already_s = await self.journal.wait(last.text)
        longest_s = min(each.longest_wait_s for each in self._outages)
        grown_s = next_pause_s(rounds + 1, _FIRST_WAIT_S, longest_s, is_spread=True)
        pause_s = max(grown_s, min(each.asked_s for each in self._outages))
        if already_s + pause_s > self.limits.outage_ms / 1000:
            return False
        self.deadline += pause_s
        self.extend(pause_s)
        self.stream.publish(Delta(kind="waiting", text=last.text))
        await self._sleep(pause_s)
        self.stream.publish(Delta(kind="restart"))
        return True

    def _none_answered(self) -> ModelError:
        kind = ModelRefusedError if self._refusals == len(self.candidates) else ModelError
        return kind(
            "No model answered:\n" + "\n".join(_count_failures(self._failures)),
            hint=" ".join(self._advice),
        )

    async def _ask(
        self, candidate: Candidate, conversation: model_requests.Conversation, retries: int
    ) -> ModelResponse | None:
        unmeasured: list[tuple[Answering, Attempt]] = []
        adapted: set[str] = set()
        assumed, unproven = Capabilities(), Capabilities()
        attempt, loading_s, delay = 0, 0.0, Delay()
        while True:
            known = assumed.over(await self.knowledge.of(candidate))
            asked = model_requests.build_request(candidate, known, conversation, self.form, self.limits)
            answering = Answering(candidate, self.stream, asked)
            try:
                async with self._place(candidate, known, delay) as place:
                    response = await self._request(answering, place)
            except YieldedError:
                # Whoever has its place now may need what it reserved, and would wait for it there.
                await finish(self.journal.release(answering.estimate().id))
                self.stream.publish(Delta(kind="restart"))
                continue
            if isinstance(response, Exception):
                error = self.error = response
                reason = describe(error, self.redact)
                spent = replace(
                    answering.attempt(reason),
                    reached=system_number(error) != errno.ECONNREFUSED,
                )
                await self.journal.spend(spent)
                if answering.unmeasured:
                    unmeasured.append((answering, spent))
                lesson = await self._learn(candidate, known, error, answering)
                if lesson == "window":
                    known = await self.knowledge.of(candidate)
                    if known.context_tokens == asked.known.context_tokens:
                        # It does not say how long a prompt it takes: less than this one.
                        assumed = replace(assumed, context_tokens=answering.estimate().input_tokens * 3 // 4)
                    now = model_requests.build_request(
                        candidate, assumed.over(known), conversation, self.form, self.limits
                    )
                    if (now.messages, now.settings) == (asked.messages, asked.settings):
                        lesson = ""  # nothing of it can be left out
                if lesson == "form":
                    # Kept once an answer without the schema shows that it was the schema.
                    unproven = Capabilities(structured_output="none")
                    assumed = unproven.over(assumed)
                if lesson and lesson not in adapted:
                    # Now that it is known, the same model is asked again at once, in another way.
                    adapted.add(lesson)
                    self.stream.publish(Delta(kind="restart"))
                    continue
                if is_loading(error) and loading_s < _LONGEST_LOADING_S:
                    loading_s += await self._loading(candidate)
                    continue
                self._failures.append(f"{candidate.name}: {reason}")
                self._advice[advise(error, candidate)] = None
                self._refusals += is_refusal(error)
                is_last = candidate is self.candidates[-1]
                pause_s = None if attempt == retries else self._pause_s(error, attempt)
                if pause_s is not None and pause_s > _PATIENCE_S and not is_last:
                    pause_s = None
                if pause_s is not None or not is_last:
                    self.stream.publish(Delta(kind="restart"))
                if pause_s is None:
                    if is_outage(error):
                        self._outages.append(self._outage(error, candidate))
                    return None
                await self._sleep(pause_s)
                attempt += 1
            else:
                spent = answering.attempt(None)
                await self.journal.spend(spent)
                for earlier, estimate in unmeasured:
                    await self.journal.spend(earlier.correct(estimate, response.usage))
                if candidate.config.is_local or self.measures:
                    unproven = unproven.over(measure(known, spent, answering.sent_bytes))
                if unproven.known_fields():
                    await self.knowledge.learn(candidate, unproven)
                return model_requests.with_calls(response, candidate, known, conversation, answering)

    @asynccontextmanager
    async def _place(self, candidate: Candidate, known: Capabilities, delay: Delay) -> AsyncGenerator[Place]:
        """Wait for a place at the server. A slow server costs the run no time of its own."""
        limits, config = self.limits, candidate.config
        patient = config.is_local and limits.patient

        def tell(names: str) -> None:
            used_by = f" ({names})" if names else ""
            self.stream.publish(Delta.status(f"waiting for the model{used_by}"))

        with pace.waiting(), self.clock_stopped() if patient else nullcontext():
            began = time.monotonic()
            # Waiting for people to finish is no background work's own time.
            with self.clock_stopped() if limits.priority == BACKGROUND else nullcontext():
                place = await self.slots.enter(
                    candidate.provider,
                    config.concurrency or known.slots,
                    limits.priority,
                    name=limits.name,
                    # An answer that comes whole is written to its end though nobody listens.
                    yields=config.is_local and known.streams is not False,
                    on_wait=tell,
                    delay=delay,
                )
            self.deadline += time.monotonic() - began
            with place:
                yield place

    async def _request(self, answering: Answering, place: Place) -> ModelResponse | Exception:
        """Make a request; whatever a client raises is returned: it is told, and the next is asked."""
        self.limits.check(await self.journal.count_requests())
        estimate = answering.estimate()
        await self.journal.afford(estimate)
        self.stream.publish(Delta.status(f"reading {estimate.input_tokens:,} tokens"))
        try:
            return await answering.run()
        except LimitError:
            raise
        except asyncio.CancelledError:
            # Stopped in the midst of it, it is paid for all the same.
            if not place.has_yielded:
                with suppress(NexusError):
                    await finish(self.journal.spend(answering.attempt("it was stopped")))
            raise
        except Exception as error:
            return error

    def _outage(self, error: Exception, candidate: Candidate) -> "_Outage":
        asked_s, url = retry_after_s(error) or 0.0, candidate.config.base_url
        if url and system_number(error) == errno.ECONNREFUSED:
            text = self.redact(f"The model server at {url} isn't running")
            return _Outage(text=text, asked_s=asked_s, longest_wait_s=_LONGEST_OWN_WAIT_S)
        text = f"{candidate.name} isn't available: {describe(error, self.redact)}"
        return _Outage(text=text, asked_s=asked_s, longest_wait_s=_LONGEST_WAIT_S)

    async def _sleep(self, seconds: float) -> None:
        with pace.waiting():
            await self.sleep(seconds)

    async def _learn(
        self, candidate: Candidate, known: Capabilities, error: Exception, answering: Answering
    ) -> str:
        """What an error teaches about a model, kept; empty where it teaches nothing."""
        too_long = find_overflow(error)
        if too_long is not None:
            learned = Capabilities(context_tokens=too_long.context_tokens)
            if too_long.prompt_tokens:
                per_token = round(answering.sent_bytes / too_long.prompt_tokens, 2)
                learned = Capabilities(context_tokens=learned.context_tokens, bytes_per_token=per_token)
            if learned.known_fields():
                await self.knowledge.learn(candidate, learned)
            return "window"
        if refuses_tools(error) and known.tool_calls != "none":
            await self.knowledge.learn(candidate, Capabilities(tool_calls="none"))
            return "tools"
        if refuses_streaming(error) and known.streams is not False:
            await self.knowledge.learn(candidate, Capabilities(streams=False))
            return "streaming"
        if refuses_images(error) and known.images is not False and answering.has_images:
            await self.knowledge.learn(candidate, Capabilities(images=False))
            return "images"
        if self.form is not None and may_refuse_form(known, error):
            return "form"
        return ""

    async def _loading(self, candidate: Candidate) -> float:
        """Wait for a server that is still loading the model: that is not the run's time."""
        self.stream.publish(Delta(kind="waiting", text=f"{candidate.name} is loading"))
        self.deadline += _LOADING_PAUSE_S
        self.extend(_LOADING_PAUSE_S)
        await self._sleep(_LOADING_PAUSE_S)
        self.stream.publish(Delta(kind="restart"))
        return _LOADING_PAUSE_S

    def _pause_s(self, error: Exception, attempt: int) -> float | None:
        """How long to wait before the same model is asked again; None: it is of no use."""
        if not is_worth_repeating(error):
            return None
        asked_s = retry_after_s(error)
        grown_s = next_pause_s(attempt + 1, _FIRST_PAUSE_S, _LONGEST_PAUSE_S, is_spread=True)
        pause_s = grown_s if asked_s is None else asked_s
        return pause_s if time.monotonic() + pause_s < self.deadline else None


@dataclass(frozen=True, kw_only=True)
class _Outage:
    """A model that is out of reach."""

    text: str
    """For the person who waits."""
    asked_s: float
    """How long it asked to be left alone."""
    longest_wait_s: float
    """How long to leave it alone at most, unless it asked for more."""


def _count_failures(failures: list[str]) -> Iterator[str]:
    for failure, times in Counter(failures).items():
        yield f"- {failure}" + (f" ({times} times)" if times > 1 else "")
