"""What a program can ask of a home that is served."""

from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from nexus import ids
from nexus.answer import Answer, Answered, Heard, Totals
from nexus.client.answering import Answering
from nexus.client.wire import Wire
from nexus.errors import GatewayError
from nexus.home import Home
from nexus.serving import serving


class Client:
    """Speaks for the owner of a home, by its token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._wire = Wire(url, token)

    @classmethod
    def of(cls, home: Home) -> Self:
        """The client of a home of this machine, or an error where nobody serves it."""
        service = serving(home)
        if service is None or not service.url:
            raise GatewayError(f"The home at {home.root} is not served", hint="Start it with `nexus up`.")
        return cls(service.url, home.token())

    async def __aenter__(self) -> Self:
        await self._wire.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.__aexit__(kind, error, trace)

    async def say(
        self, text: str, *, session_label: str = "main", model: str = "", mode: str = "followup"
    ) -> Answer:
        """Say something; what is going to answer is returned at once."""
        return (await self.hear(text, session_label=session_label, model=model, mode=mode)).answer

    async def hear(
        self,
        text: str,
        *,
        session_label: str = "main",
        model: str = "",
        mode: str = "followup",
        channel: str = "api",
        key: str = "",
    ) -> Heard:
        """As `say`, with the request that it became. Under the same key it is said once."""
        said = {"text": text, "session": session_label, "model": model, "mode": mode, "channel": channel}
        told = await self._wire.post("/api/messages", said, key=key or ids.new("key"))
        request_id, execution_id = told["request_id"], told["execution_id"]
        if execution_id is None:
            return Heard(request_id=request_id, answer=Answered(request_id, told["content"] or ""))
        return Heard(request_id=request_id, answer=self.answer(execution_id), execution_id=execution_id)

    def answer(self, execution_id: str) -> Answer:
        """The answer of a run that was asked for before, here or elsewhere."""
        return Answering(self._wire, execution_id)

    async def execution(self, execution_id: str) -> dict[str, Any]:
        """A run, as it stands."""
        return await self._wire.get(f"/api/executions/{quote(execution_id)}")

    async def leave(self, session_label: str, *, channel: str = "api") -> None:
        """Start afresh: automations may still do something about the session that is left."""
        await self._wire.post(f"/api/sessions/{quote(session_label)}/leave", {"channel": channel})

    async def under_way(self, session_label: str) -> list[Answer]:
        """The answers of a session that have not ended."""
        return await self._runs(session_label, unfinished=True)

    async def runs_after(self, session_label: str, execution_id: str = "") -> list[Answer]:
        """The runs of a session that were asked for after another one, whoever asked."""
        return await self._runs(session_label, after=execution_id)

    async def said(self, session_label: str, *, channel: str, limit: int) -> list[str]:
        """What was last said into a session, the newest first."""
        told = await self._wire.get(
            f"/api/sessions/{quote(session_label)}/said", channel=channel, limit=limit
        )
        return told["texts"]

    async def unasked(
        self, session_label: str, *, channel: str, after: int | None = None
    ) -> list[dict[str, Any]]:
        """What automations sent into a session: after one of them, or since anything was last said."""
        given = {} if after is None else {"after": after}
        path = f"/api/sessions/{quote(session_label)}/unasked"
        return (await self._wire.get(path, channel=channel, **given))["messages"]

    async def cost(self, session_label: str) -> Totals:
        """What the messages of a session cost so far."""
        return Totals(**await self._wire.get(f"/api/sessions/{quote(session_label)}/usage"))

    async def sessions(self, **page: Any) -> dict[str, Any]:
        """Sessions, the one that was last used first: a page with `items` and `next`."""
        return await self._wire.get("/api/sessions", **page)

    async def transcript(self, session_label: str, **page: Any) -> dict[str, Any]:
        """The newest messages of a session: a page whose next one is older."""
        return await self._wire.get(f"/api/sessions/{quote(session_label)}/transcript", **page)

    async def requests(self, **which: Any) -> dict[str, Any]:
        """Requests, the newest first: a page with `items` and `next`."""
        return await self._wire.get("/api/requests", **which)

    async def request(self, request_id: str) -> dict[str, Any]:
        """One request, with the trace of everything that was done for it."""
        return await self._wire.get(f"/api/requests/{quote(request_id)}")

    async def recall(self, text: str, **how: Any) -> dict[str, Any]:
        """What the memory holds about a question, the best first, with why."""
        return await self._wire.get("/api/recall", text=text, **how)

    async def remember(self, fact: str, **more: Any) -> dict[str, Any]:
        """Remember something. When this returns, it is durable."""
        return await self._wire.post("/api/memory/facts", {"fact": fact, **more})

    async def entities(self, **which: Any) -> dict[str, Any]:
        """Entities, those that changed last first: a page with `items` and `next`."""
        return await self._wire.get("/api/memory/entities", **which)

    async def usage(self, days: int = 30, messages: int = 10) -> dict[str, Any]:
        """What the last days cost, how far the `budgets` are used, and the `hits`: what they refused."""
        return await self._wire.get("/api/usage", days=days, messages=messages)

    async def login_url(self) -> str:
        """A link that opens the dashboard once."""
        return (await self._wire.post("/api/login-links"))["url"]

    async def _runs(self, session_label: str, **which: Any) -> list[Answer]:
        told = await self._wire.get(f"/api/sessions/{quote(session_label)}/executions", **which)
        return [self.answer(id_) for id_ in told["ids"]]
