"""An HTTP client for a home served by `nexus up`, with the verbs and types of `App`.

Only the base is imported with it; the types of the parts that are asked for are when they are.

`async with Client.connect() as client: run = await client.send("Hello")`.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack
from urllib.parse import quote

import httpx
from httpx_sse import ServerSentEvent, aconnect_sse

from nexus import clock, errors, ids
from nexus.attachments import File
from nexus.backoff import next_pause_s
from nexus.errors import (
    AccessError,
    AgentError,
    GatewayError,
    MissingError,
    NexusError,
    StoppedError,
    UsageError,
)
from nexus.home import Home, locate
from nexus.results import Erasure, Reflection, RunState, StoredFact, Trace, WaitingCall
from nexus.runs import Delta, FinishedRun, Receipt, Result, Run, Totals
from nexus.serialization import decode
from nexus.serving import SILENCE_S, Service, serving

if TYPE_CHECKING:
    from nexus.automations.reminders import Draft, Reminder
    from nexus.gateway.views.answers import LastMessage
    from nexus.gateway.views.requests import RequestLine
    from nexus.gateway.views.sessions import Message, SessionLine
    from nexus.gateway.views.usage import Report
    from nexus.ledgers.events import Unasked
    from nexus.ledgers.runtime.executions import Mode
    from nexus.memory.recall.item import How, Matches, Options, Query
    from nexus.memory.views.entities import EntityLine
    from nexus.memory.views.page import Page

_log = logging.getLogger(__name__)

T = TypeVar("T")
Notify = Callable[[str], None]
_TRIES: Final = 4
_PAUSE_S: Final = 0.25
_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
# The gateway sends keep-alives: a stream that is silent for this long is broken.
_STREAM_TIMEOUT: Final = httpx.Timeout(60.0, connect=5.0)
# A model answers, or files are rewritten: the process that serves knows when that takes too long.
_SLOW_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0, read=None)
_ERRORS: Final[dict[int, type[NexusError]]] = {
    400: UsageError,
    401: AccessError,
    403: AccessError,
    404: MissingError,
    422: UsageError,
}


class Client:
    """Acts for the owner of a served home, authenticated by its token."""

    def __init__(
        self, url: str, token: str, *, service: Service | None = None, notify: Notify = _log.warning
    ) -> None:
        """`notify` is told if the home, which the process `service` serves, doesn't respond for a while."""
        self.url = url
        self._http = _Connection(url, token, service, notify)

    @classmethod
    def connect(cls, home: Home | Path | str | None = None, *, notify: Notify = _log.warning) -> Self:
        """A client for a home on this machine, by default the one that NEXUS_HOME names.

        Raises `GatewayError` if no process serves it, or the one that does is stopped.
        """
        place = home if isinstance(home, Home) else locate(Path(home) if home else None)
        service = serving(place)
        if service is None or not service.url:
            raise GatewayError(f"The home at {place.root} is not served", hint="Start it with `nexus up`.")
        service.check()
        return cls(service.url, place.token(), service=service, notify=notify)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def send(
        self,
        text: str,
        *,
        session_label: str = "main",
        channel: str = "api",
        model: str = "",
        mode: "Mode" = "followup",
        external_id: str | None = None,
        files: Sequence[File] = (),
    ) -> Run:
        """Send a message and return its run without waiting for the answer.

        Messages sent again under the same `external_id` are processed once.
        """
        receipt = await self.receive(
            text,
            session_label=session_label,
            channel=channel,
            model=model,
            mode=mode,
            external_id=external_id,
            files=files,
        )
        return receipt.run

    async def receive(
        self,
        text: str,
        *,
        session_label: str = "main",
        channel: str = "api",
        model: str = "",
        mode: "Mode" = "followup",
        external_id: str | None = None,
        files: Sequence[File] = (),
        replaces: str | None = None,
    ) -> Receipt:
        """Send a message and return its receipt, which also names the request.

        With `replaces`, a run's id, it takes the place of that run's message.
        """
        message: dict[str, Any] = {
            "text": text,
            "session": session_label,
            "model": model,
            "mode": mode,
            "channel": channel,
        }
        if files:
            message["attachments"] = [
                {"name": file.name, "data": base64.b64encode(file.data).decode()} for file in files
            ]
        if replaces:
            message["replaces"] = replaces
        accepted = await self._http.post("/api/messages", message, key=external_id or ids.new("key"))
        request_id, execution_id = accepted["request_id"], accepted["execution_id"]
        if execution_id is None:
            run = FinishedRun.of(request_id, accepted["content"] or "")
            return Receipt(request_id=request_id, run=run, reason=accepted.get("reason") or "")
        return Receipt(request_id=request_id, run=self.run(execution_id), execution_id=execution_id)

    def run(self, execution_id: str) -> Run:
        """A run that was started before, here or elsewhere."""
        return _ServedRun(self._http, execution_id)

    async def regenerate(self, execution_id: str, model: str = "") -> Run:
        """Answer the message of a finished run again; the new answer replaces the old one."""
        path = f"/api/executions/{quote(execution_id)}/regenerate"
        return self.run((await self._http.post(path, {"model": model}))["execution_id"])

    async def experiment(
        self,
        execution_id: str,
        *,
        without: Sequence[str] = (),
        memories: str | None = None,
        profile: str | None = None,
    ) -> Run:
        """Ask for a finished answer once more without some memories, or with others in their place.

        The new answer is not part of the conversation, and nothing is remembered from it. Its cost is the
        message's.
        """
        given = {"without": list(without), "memories": memories, "profile": profile}
        path = f"/api/executions/{quote(execution_id)}/experiment"
        return self.run((await self._http.post(path, given))["execution_id"])

    async def new_session(self, session_label: str, *, channel: str = "api") -> None:
        """Leave a session for a new one; automations at `command:new` run for the one that is left."""
        await self._http.post(f"/api/sessions/{quote(session_label)}/leave", {"channel": channel})

    async def active_runs(self, session_label: str) -> list[Run]:
        """The unfinished runs of a session."""
        return await self._runs(session_label, unfinished=True)

    async def runs_after(self, session_label: str, execution_id: str = "") -> list[Run]:
        """The runs of a session that were started after another one, by anyone."""
        return await self._runs(session_label, after=execution_id)

    async def cost(self, session_label: str) -> Totals:
        """Token usage and cost of a session so far."""
        return decode(Totals, await self._http.get(f"/api/sessions/{quote(session_label)}/usage"))

    async def recall(self, query: "str | Query", **options: "Unpack[Options]") -> "Matches":
        """Memories that match a question, best first, with the reasons. No model is called."""
        from nexus.memory.recall.item import Matches, list_kinds, list_options

        text, given = list_options(query, options)
        if "kinds" in given:
            given["scope"] = ",".join(list_kinds(given.pop("kinds")))
        entity = given.pop("about", None)
        return decode(Matches, await self._http.get("/api/recall", text=text, entity=entity, **given))

    async def remember(
        self,
        fact: str,
        *,
        about: str | None = None,
        entities: Sequence[str] = (),
        as_of: datetime | str | None = None,
        confidence: float = 1.0,
        replaces: Sequence[str] = (),
        how: "How | None" = None,
    ) -> StoredFact:
        """Store a fact as the owner. It is durable when this returns."""
        given: dict[str, Any] = {
            "fact": fact,
            "about": about,
            "entities": list(entities),
            "as_of": as_of.isoformat() if isinstance(as_of, datetime) else as_of,
            "confidence": confidence,
            "replaces": list(replaces),
            "how": how,
        }
        stored = await self._http.post("/api/memory/facts", given)
        return StoredFact(id=stored["id"], replaces=tuple(replaces))

    async def correct(
        self, fact_id: str, fact: str, *, how: "How | None" = None, by: str = "", channel: str = "api"
    ) -> StoredFact:
        """Replace a fact by what is true now. Both stay in the log. `by` names the person who typed it."""
        given = {"fact": fact, "how": how, "by": by, "channel": channel}
        stored = await self._http.post(f"/api/memory/facts/{quote(fact_id)}/correct", given)
        return StoredFact(id=stored["id"], replaces=(stored["replaces"],))

    async def forget(self, entity: str, *, mentions: bool = True) -> Erasure:
        """Erase an entity from every ledger. This can't be undone.

        With `mentions=False`, texts of others that only name it are kept.
        """
        given = {"entity": entity, "mentions": mentions}
        return decode(Erasure, await self._http.post("/api/memory/forget", given, is_slow=True))

    async def forget_fact(self, fact_id: str) -> Erasure:
        """Erase a fact and what was concluded from it. The message that it came from stays."""
        return decode(Erasure, await self._http.post("/api/memory/forget", {"fact": fact_id}, is_slow=True))

    async def reflect(self, question: str, *, save_as: str | None = None, model: str = "") -> Reflection:
        """Answer a question from the memory, with sources; with `save_as`, keep it as a mental model."""
        given = {"question": question, "save_as": save_as, "model": model}
        return decode(Reflection, await self._http.post("/api/reflections", given, is_slow=True))

    async def refresh(self, mental_model: str, *, model: str = "") -> Reflection:
        """Make the next version of a mental model, given by its id or its name."""
        given = {"mental_model": mental_model, "model": model}
        return decode(Reflection, await self._http.post("/api/reflections/refresh", given, is_slow=True))

    async def draft_reminder(self, words: str) -> "Draft":
        """What a reminder in words would be, such as `in two hours call Anna`. Nothing is saved."""
        from nexus.automations.reminders import Draft
        from nexus.automations.when import When

        found = await self._http.post("/api/reminders/draft", {"words": words})
        at = found["at"] and clock.parse(found["at"])
        return Draft(
            text=found["text"],
            asks=found["asks"],
            when=When(zone=found["zone"], at=at, cron=found["cron"]),
        )

    async def remind(self, new: "Draft", *, session_label: str = "main", channel: str = "api") -> "Reminder":
        """Save a reminder, as `draft_reminder` gave it: it arrives in that session, on that channel."""
        from nexus.automations.reminders import Reminder

        given = {"text": new.text, "asks": new.asks, **new.when.triggers}
        place = {"session": session_label, "channel": channel}
        return decode(Reminder, await self._http.post("/api/reminders", {**given, **place}))

    async def list_reminders(self) -> "list[Reminder]":
        """Every reminder, in the order in which they were made."""
        from nexus.automations.reminders import Reminder

        return decode(list[Reminder], await self._http.get("/api/reminders"))

    async def execution(self, execution_id: str) -> RunState:
        """How a run stands."""
        return decode(RunState, await self._http.get(f"/api/executions/{quote(execution_id)}"))

    async def newest_run(self, session_label: str) -> str | None:
        """The id of the run of a session that was started last."""
        found = await self._http.get(f"/api/sessions/{quote(session_label)}/executions", newest=True)
        return next(iter(found["ids"]), None)

    async def last_message(self, session_label: str) -> "LastMessage | None":
        """What a person last said in a session."""
        from nexus.gateway.views.answers import LastMessage

        return decode(LastMessage, await self._http.get(f"/api/sessions/{quote(session_label)}/last-message"))

    async def sent_messages(self, session_label: str, *, channel: str, limit: int) -> list[str]:
        """The latest messages sent to a session, newest first."""
        found = await self._http.get(
            f"/api/sessions/{quote(session_label)}/said", channel=channel, limit=limit
        )
        return found["texts"]

    async def scheduled_messages(
        self, session_label: str, *, channel: str, after: int | None = None
    ) -> "list[Unasked]":
        """Messages from automations: those after `after`, or since the last message to the session."""
        from nexus.ledgers.events import Unasked

        path = f"/api/sessions/{quote(session_label)}/unasked"
        return decode(list[Unasked], (await self._http.get(path, channel=channel, after=after))["messages"])

    async def sessions(self, **page: Any) -> "Page[SessionLine]":
        """Sessions, most recently used first."""
        from nexus.gateway.views.sessions import SessionLine
        from nexus.memory.views.page import Page

        return decode(Page[SessionLine], await self._http.get("/api/sessions", **page))

    async def transcript(self, session_label: str, **page: Any) -> "Page[Message]":
        """The newest messages of a session: a page whose `next` is older."""
        from nexus.gateway.views.sessions import Message
        from nexus.memory.views.page import Page

        path = f"/api/sessions/{quote(session_label)}/transcript"
        return decode(Page[Message], await self._http.get(path, **page))

    async def requests(self, **filters: Any) -> "Page[RequestLine]":
        """Requests, newest first."""
        from nexus.gateway.views.requests import RequestLine
        from nexus.memory.views.page import Page

        return decode(Page[RequestLine], await self._http.get("/api/requests", **filters))

    async def request(self, request_id: str) -> Trace:
        """One request with its trace."""
        return decode(Trace, await self._http.get(f"/api/requests/{quote(request_id)}"))

    async def waiting_calls(self) -> list[WaitingCall]:
        """Tool calls that wait for the owner, oldest first."""
        return decode(list[WaitingCall], (await self._http.get("/api/approvals"))["approvals"])

    async def decide(self, approval_id: str, decision: str, call_hash: str) -> None:
        """Allow a waiting tool call (`once`, `session`, `always`), or `deny` it."""
        await self._http.post(
            f"/api/approvals/{quote(approval_id)}", {"decision": decision, "call_hash": call_hash}
        )

    async def entities(self, **filters: Any) -> "Page[EntityLine]":
        """Entities, most recently changed first."""
        from nexus.memory.views.entities import EntityLine
        from nexus.memory.views.page import Page

        return decode(Page[EntityLine], await self._http.get("/api/memory/entities", **filters))

    async def usage(self, days: int = 30, messages: int = 10) -> "Report":
        """Cost of the last days, the state of the budgets, and what they refused."""
        from nexus.gateway.views.usage import Report

        return decode(Report, await self._http.get("/api/usage", days=days, messages=messages))

    async def login_url(self) -> str:
        """A one-time link to the dashboard."""
        return (await self._http.post("/api/login-links"))["url"]

    async def _runs(self, session_label: str, **filters: Any) -> list[Run]:
        found = await self._http.get(f"/api/sessions/{quote(session_label)}/executions", **filters)
        return [self.run(id_) for id_ in found["ids"]]


class _ServedRun:
    """A run in another process, followed over HTTP."""

    def __init__(self, http: "_Connection", execution_id: str) -> None:
        self._http = http
        self.id = execution_id
        self._end: tuple[str, dict[str, Any]] | None = None

    async def deltas(self) -> AsyncIterator[Delta]:
        """The answer as it is written, from its beginning."""
        async for event in self._http.events(f"/api/executions/{self.id}/stream"):
            if event.event == "delta":
                yield Delta(**event.json())
            else:
                self._end = (event.event, event.json())

    async def result(self) -> Result:
        """The result when there is one, or the error that ended the run."""
        if self._end is None:
            async for _ in self.deltas():
                pass
        if self._end is None:
            raise GatewayError(f"The stream of {self.id} ended early", hint="Check `nexus logs`.")
        kind, value = self._end
        if kind == "result":
            return Result.from_json(value)
        error = StoppedError if value["status"] == "cancelled" else AgentError
        raise error(value["message"], hint=value["hint"])

    async def cancel(self) -> bool:
        """Stop it. False if it had already ended."""
        return (await self._http.post(f"/api/executions/{self.id}/cancel"))["cancelled"]


class _Connection:
    """HTTP to one gateway: the token, retries of what is safe to repeat, and errors by type."""

    def __init__(self, url: str, token: str, service: Service | None, notify: Notify) -> None:
        self._url = url
        self._service = service
        self._notify = notify
        self._is_silent = False
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {token}"},
            timeout=_TIMEOUT,
            # The gateway is local, or where the owner says: an environment's proxy must not see the token.
            trust_env=False,
            # Reading the certificates of the authorities takes longer than a local answer.
            verify=not url.startswith("http://"),
            limits=httpx.Limits(max_connections=None),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, **params: Any) -> Any:
        """Fetch a path, and retry if the gateway doesn't respond."""
        given = {name: value for name, value in params.items() if value is not None}
        return await self._request("GET", path, tries=_TRIES, params=given)

    async def post(self, path: str, body: Any = None, *, key: str = "", is_slow: bool = False) -> Any:
        """Post to a path. Only with an idempotency key is it retried. What is slow is waited for."""
        options: dict[str, Any] = {"timeout": _SLOW_TIMEOUT} if is_slow else {}
        options["headers"] = {"idempotency-key": key} if key else {}
        tries = _TRIES if key else 1
        return await self._request("POST", path, tries=tries, is_slow=is_slow, json=body, **options)

    async def events(self, path: str) -> AsyncIterator[ServerSentEvent]:
        """Server-sent events. A broken stream is resumed after the last event that arrived."""
        last_id, failures = "0", 0
        while True:
            try:
                async for event in self._stream(path, last_id):
                    last_id, failures = event.id, 0
                    yield event
            except httpx.TransportError as error:
                failures += 1
                if failures == _TRIES:
                    raise self._unreachable(error) from None
                await asyncio.sleep(next_pause_s(failures, 2 * _PAUSE_S))
            else:
                return

    async def _request(
        self, method: str, path: str, *, tries: int, is_slow: bool = False, **options: Any
    ) -> Any:
        for attempt in range(1, tries + 1):
            try:
                response = self._http.request(method, path, **options)
                return _check_status(await self._await(response, is_slow=is_slow)).json()
            except httpx.TransportError as error:
                if attempt == tries:
                    raise self._unreachable(error) from None
            await asyncio.sleep(next_pause_s(attempt, 2 * _PAUSE_S))
        raise AssertionError("unreachable")

    async def _stream(self, path: str, last_id: str) -> AsyncIterator[ServerSentEvent]:
        headers = {"last-event-id": last_id}
        async with aconnect_sse(self._http, "GET", path, headers=headers, timeout=_STREAM_TIMEOUT) as source:
            if source.response.is_error:
                await source.response.aread()
            _check_status(source.response)
            arriving = aiter(source.aiter_sse())
            while event := await self._await(anext(arriving, None), is_slow=True):
                if event.data:  # a keep-alive comes as an event without data
                    yield event

    async def _await(self, response: Awaitable[T], *, is_slow: bool = False) -> T:
        """Wait for a response, and tell the person once if none comes.

        Of what may be slow, an answer that is being written, only if the process is stopped.
        """
        waiting = asyncio.ensure_future(response)
        try:
            while not (await asyncio.wait({waiting}, timeout=SILENCE_S))[0]:
                stopped = self._service is not None and self._service.is_stopped
                if not self._is_silent and (stopped or not is_slow):
                    self._is_silent = True
                    silence = f"{self._url} doesn't respond. Waiting; press Ctrl-C to stop."
                    self._notify(self._service.silence if self._service else silence)
            result = waiting.result()
            self._is_silent = False
            return result
        finally:
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait({waiting})

    def _unreachable(self, error: httpx.TransportError) -> GatewayError:
        reason = str(error) or type(error).__name__
        return GatewayError(
            f"No response from {self._url}: {reason}", hint="Check that `nexus up` is still running."
        )


def _check_status(response: httpx.Response) -> httpx.Response:
    if not response.is_error:
        return response
    try:
        problem: dict[str, str] = response.json()
        kind, message, hint = problem.get("type", ""), problem["detail"], problem.get("hint", "")
    except (ValueError, KeyError, TypeError):
        kind, message = "", f"The gateway responded with status {response.status_code}"
        hint = "Check `nexus logs`."
    usual = _ERRORS.get(response.status_code, GatewayError)
    raise _find_error(kind, usual)(message, hint=hint)


def _find_error(type_: str, usual: type[NexusError]) -> type[NexusError]:
    """The error of that type; the usual one of its status if this version doesn't know it."""
    known = (each for each in vars(errors).values() if isinstance(each, type))
    return next((each for each in known if issubclass(each, NexusError) and each.type == type_), usual)
