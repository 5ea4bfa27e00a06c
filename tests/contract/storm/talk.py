"""What is said in a storm: people who don't give up, and models that answer to every message by its name.

A message is named in its own text (`MSG[S03M007|effect]`), and every answer names the messages that it
answers, so what was lost, doubled or out of order can be read from the ledgers.
"""

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from nexus.testing import ModelRequest, ModelServer, Pace, ToolCall, Turn

from .place import Place

MESSAGE = re.compile(r"MSG\[(S\d+M\d+)\|(\w+)\]")
_REMEMBERED = re.compile(r"<memory_context>.*?</memory_context>", re.DOTALL)
QUOTED = re.compile(r"<(memory_context|worker_result)\b.*?</\1>", re.DOTALL)
_REPORT = re.compile(r"WRES\[(S\d+M\d+)\]")
_TASK = re.compile(r"TASK\[(S\d+M\d+)\]")
# What the agent does about a message: answer it, change a file, wait for a worker, or leave one to report.
KINDS = ("plain", "plain", "plain", "plain", "effect", "effect", "wait", "fire")
MODES = ("followup", "followup", "followup", "followup", "followup", "followup", "steer", "collect")
# The home is away, or says that it can take nothing now: the same message is sent again.
_AGAIN = frozenset({503, 507})
_GIVE_UP_S = 1_800.0


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message that was accepted."""

    name: str
    kind: str
    mode: str
    session: str
    execution_id: str


@dataclass
class Talk:
    """The people of a storm: one for each session, each sending messages in order."""

    place: Place
    seed: int
    sessions: int
    messages: int
    gap_s: float = 1.0
    accepted: list[Sent] = field(default_factory=list[Sent])
    refused: Counter[str] = field(default_factory=Counter[str])
    problems: list[str] = field(default_factory=list[str])
    hear: Callable[[str], None] = lambda _: None
    """Called with each problem when it comes up."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._allowed = 0
        self._threads = [
            threading.Thread(target=self._person, args=(number,), name=f"person-{number}")
            for number in range(self.sessions)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def allow(self, count: int) -> None:
        """Let people send messages until that many are accepted; the rest waits for the next faults."""
        self._allowed = count

    def stop(self) -> None:
        """Say nothing more: the storm cannot go on."""
        self._stopped.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _person(self, number: int) -> None:
        chance = random.Random(f"{self.seed}/{number}")
        with httpx.Client(base_url=self.place.url, timeout=60) as client:
            client.headers["Authorization"] = f"Bearer {self.place.token}"
            count = self.messages // self.sessions + (number < self.messages % self.sessions)
            for place in range(count):
                while len(self.accepted) >= self._allowed and not self._stopped.is_set():
                    time.sleep(0.05)
                if self._stopped.is_set():
                    return
                name = f"S{number:02}M{place:03}"
                kind, mode = chance.choice(KINDS), chance.choice(MODES)
                try:
                    self._say(client, chance, name, kind, mode, f"storm-{number:02}")
                except Exception as error:
                    self._problem(f"{name} was not accepted: {error!r}")
                    return
                time.sleep(chance.expovariate(1 / self.gap_s))

    def _say(
        self, client: httpx.Client, chance: random.Random, name: str, kind: str, mode: str, session: str
    ) -> None:
        told = self._accepted(client, chance, name, kind, mode, session)
        sent = Sent(name=name, kind=kind, mode=mode, session=session, execution_id=told["execution_id"])
        with self._lock:
            self.accepted.append(sent)
        if chance.random() < 0.1:
            # Somebody who did not see the answer sends it again.
            again = self._accepted(client, chance, name, kind, mode, session)
            if again["execution_id"] != sent.execution_id:
                self._problem(f"{name} was accepted twice: {sent.execution_id}, {again['execution_id']}")

    def _accepted(
        self, client: httpx.Client, chance: random.Random, name: str, kind: str, mode: str, session: str
    ) -> dict[str, Any]:
        body = {"text": f"MSG[{name}|{kind}] Please see to it.", "session": session, "mode": mode}
        deadline = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < deadline and not self._stopped.is_set():
            try:
                answer = client.post("/api/messages", json=body, headers={"Idempotency-Key": name})
            except httpx.HTTPError as error:
                self._refuse(type(error).__name__)
            else:
                if answer.is_success:
                    return answer.json()
                self._refuse(str(answer.status_code))
                if answer.status_code not in _AGAIN:
                    raise RuntimeError(f"{answer.status_code} {answer.text[:300]}")
            time.sleep(chance.uniform(0.1, 0.8))
        raise TimeoutError(f"not within {_GIVE_UP_S} s")

    def _refuse(self, reason: str) -> None:
        with self._lock:
            self.refused[reason] += 1

    def _problem(self, text: str) -> None:
        with self._lock:
            self.problems.append(text)
        self.hear(text)


def script(server: ModelServer, effects: str, seed: int) -> None:
    """Let the models of a storm answer."""
    chance = random.Random(f"{seed}/models")
    lock = threading.Lock()

    def pace() -> Pace:
        with lock:
            return Pace(before_ms=chance.randrange(10, 300), between_ms=chance.randrange(0, 20))

    def manager(request: ModelRequest) -> Turn:
        said = _this_turn(request.json["messages"])
        done = str([part for part in _parts(said, "assistant") if part.get("type") == "tool_use"])
        texts = [_REMEMBERED.sub("", text) for text in _texts(said)]
        asked = dict(found for text in texts for found in MESSAGE.findall(text))
        if (call := _next_call(asked, done, effects)) is not None:
            return Turn("", [call], pace=pace())
        results = str([part for part in _parts(said, "user") if part.get("type") == "tool_result"])
        heard = dict.fromkeys(_REPORT.findall(" ".join([*texts, results])))
        answer = [f"ANS<{name}>" for name in asked] + [f"HEARD<{name}>" for name in heard]
        return Turn(" ".join(answer) or "Nothing to say.", pace=pace())

    def worker(request: ModelRequest) -> Turn:
        return Turn(f"WRES[{_TASK.findall(str(request.json['messages']))[-1]}]", pace=pace())

    server.when(model="manager").always(manager)
    server.when(model="worker").always(worker)
    server.when(model="writer").always("Nothing to remember.")


def _next_call(asked: dict[str, str], done: str, effects: str) -> ToolCall | None:
    for name, kind in asked.items():
        if kind == "effect" and f"echo {name} " not in done:
            return ToolCall("bash", {"command": f"echo {name} >> {effects}/done; sleep 0.3"})
        if kind in {"wait", "fire"} and f"TASK[{name}]" not in done:
            return ToolCall("agent_send", {"op": "dispatch", "text": f"TASK[{name}]"})
    waits = sum(kind == "wait" for kind in asked.values())
    return ToolCall("agent_send", {"op": "wait"}) if done.count("'op': 'wait'") < waits else None


def _this_turn(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was said since the last answer in words."""
    last = -1
    for number, message in enumerate(messages):
        parts = _content(message)
        if message["role"] == "assistant" and not any(part.get("type") == "tool_use" for part in parts):
            last = number
    return messages[last + 1 :]


def _parts(messages: Iterable[dict[str, Any]], role: str) -> list[dict[str, Any]]:
    return [part for message in messages if message["role"] == role for part in _content(message)]


def _texts(messages: Iterable[dict[str, Any]]) -> list[str]:
    return [part.get("text", "") for part in _parts(messages, "user") if part.get("type") == "text"]


def _content(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
