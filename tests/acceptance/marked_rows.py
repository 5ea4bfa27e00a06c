"""The rows of a home by whom they belong to, with that one's word in every text.

What is written is tallied, so that a test knows exactly what must go and what must stay.
"""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw

from nexus import clock, ledgers
from nexus.home import LEDGERS, Home
from nexus.ledgers import attach

# Whom a row belongs to that no target takes along.
NOBODY = ""
START = datetime(2025, 1, 1, tzinfo=UTC)
ME = "me@home.example"

_VECTOR = bytes(32)
_FILLER = "the quick brown fox met a lazy dog by the old river and they talked about weather number"
# Often enough that the full-text index consists of many parts, which it merges as in life.
_ROWS_OF_A_COMMIT = 4_000
# What the ledger itself gives a number in the full-text index.
_NUMBERED = frozenset({"memory.episodes", "memory.analysis_runs", "memory.mental_models"})


class MarkedRows:
    """Writes rows; `tally[owner]` counts them by `ledger.table`."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.tally: dict[str, Counter[str]] = defaultdict(Counter)
        self.facts: dict[str, list[str]] = defaultdict(list)
        self._rows: dict[tuple[str, str, tuple[str, ...]], list[tuple[Any, ...]]] = defaultdict(list)
        self._positions: Counter[str] = Counter()
        self._serial = 0
        home.create_files()
        ledgers.create(home)
        attach.ensure(home)
        self._connections = {name: apsw.Connection(str(home.ledger(name))) for name in LEDGERS}
        for connection in self._connections.values():
            connection.execute("PRAGMA synchronous = OFF")

    def put(self, owner: str, path: str, /, **values: Any) -> str:
        """One row of `ledger.table`, for whom it belongs to; returns its id."""
        ledger, _, table = path.partition(".")
        self.tally[owner][path] += 1
        if path in _NUMBERED:
            self.tally[owner]["memory.summaries"] += 1
        rows = self._rows[ledger, table, tuple(values)]
        rows.append(tuple(values.values()))
        if len(rows) >= _ROWS_OF_A_COMMIT:
            self._flush()
        return str(values.get("id"))

    def close(self) -> None:
        self._flush()
        for connection in self._connections.values():
            connection.close()

    def new(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}_{self._serial:08d}"

    def _flush(self) -> None:
        for (ledger, table, columns), rows in self._rows.items():
            places = ", ".join("?" * len(columns))
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
            with self._connections[ledger] as connection:
                connection.executemany(statement, rows)
        self._rows.clear()

    # A row is a paragraph here, which one argument on a line would hide.
    # fmt: off

    def vector(self, owner: str, target_type: str, target_id: str) -> None:
        self.put(owner, "embeddings.embeddings", target_type=target_type, target_id=target_id,
                 model_id="m", vector=_VECTOR, source_text_hash="h")

    def log(self, owner: str, processor: str, target_type: str, target_id: str, detail: str) -> None:
        self.put(owner, "memory.processing_log", processor=processor, target_type=target_type,
                 target_id=target_id, status="done", detail=detail)

    def person(self, owner: str, word: str, entity_id: str, source_event_id: str | None = None) -> str:
        """An entity with all that the identity ledger keeps about one."""
        put, name, address = self.put, f"{word} {entity_id}", f"{word}@{entity_id}.example"
        put(owner, "identity.entities", id=entity_id, type="Person", canonical_name=name,
            normalized_name=name.lower(), summary=f"{word} is a person", source_event_id=source_event_id,
            metadata_json=json.dumps({"note": word}))
        for type_, alias in (("name", word), ("email", address)):
            known = put(owner, "identity.entity_aliases", id=self.new("ali"), entity_id=entity_id,
                        alias=alias, type=type_, normalized=alias.lower())
            put(owner, "identity.alias_keys", key=f"^{word}", alias_id=known)
        person = put(owner, "identity.persons", id=self.new("per"), entity_id=entity_id, display_name=name)
        contact = put(owner, "identity.contacts", id=f"con_{entity_id}", entity_id=entity_id,
                      channel="email", display_name=word)
        put(owner, "identity.contact_identifiers", contact_id=contact, channel="email", type="email",
            identifier=address, normalized=address.lower())
        put(owner, "identity.person_contact_links", person_id=person, contact_id=contact)
        if source_event_id:
            put(owner, "identity.person_facts", id=self.new("pfa"), person_id=person, category="personal",
                fact_type="nickname", value=word, source_event_id=source_event_id)
        self.vector(owner, "entity", entity_id)
        return entity_id

    def thread(self, owner: str, word: str, thread_id: str, at: datetime = START) -> str:
        """A thread and the session that serves it."""
        about = json.dumps({"topic": word})
        self.put(owner, "events.threads", id=thread_id, channel="email", external_id=f"{word}-{thread_id}",
                 title=f"About {word}", metadata_json=about, created_at=clock.timestamp(at))
        self.put(owner, "agents.agent_sessions", id=f"ses_{thread_id}", label=f"{word}:{thread_id}",
                 role="manager", thread_id=thread_id, metadata_json=about, created_at=clock.timestamp(at))
        return thread_id

    def event(self, owner: str, word: str, thread_id: str, at: datetime, sender: str) -> str:
        """An event from an entity to the owner of the home."""
        put, event_id, when = self.put, self.new("evt"), clock.timestamp(at)
        put(owner, "events.events", id=event_id, thread_id=thread_id, channel="email", direction="inbound",
            external_id=f"<{word}-{event_id}>", sender=f"{word} {sender}",
            content=f"{word} said: {_FILLER} {self._serial}", metadata_json=json.dumps({"subject": word}),
            occurred_at=when, created_at=when)
        put(owner, "events.event_participants", event_id=event_id, role="sender",
            identifier=f"{word}@{sender}.example", display_name=word, contact_id=f"con_{sender}",
            entity_id=sender)
        if owner:
            put(owner, "events.event_participants", event_id=event_id, role="recipient", identifier=ME,
                entity_id="ent_me")
        self.vector(owner, "event", event_id)
        self.log(owner, "episodes", "event", event_id, f"{word} was read")
        return event_id

    def attach_file(self, owner: str, word: str, event_id: str) -> None:
        path = f"state/attachments/{event_id}-{word}.txt"
        self.put(owner, "events.attachments", id=self.new("att"), event_id=event_id, path=path,
                 filename=f"{word}.txt", media_type="text/plain")
        if owner:
            file = self.home.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"a file about {word}")

    def answer(self, owner: str, word: str, thread_id: str, at: datetime, event_id: str, to: str) -> None:
        """The work on an event: a request with a worker, an execution, a turn with a tool call, a reply."""
        put, request, label, when = self.put, self.new("req"), f"{word}:{thread_id}", clock.timestamp(at)
        lineage = {"request_id": request, "root_request_id": request}
        put(owner, "runtime.requests", id=request, root_request_id=request, event_id=event_id,
            thread_id=thread_id, session_label=label, error=f"{word} failed", created_at=when)
        worker = put(owner, "runtime.requests", id=self.new("req"), parent_request_id=request,
                     root_request_id=request, created_at=when)
        execution = put(owner, "runtime.executions", id=self.new("exe"), session_label=label,
                        input_json=json.dumps([word]), error=f"no {word}", **lineage)
        put(owner, "runtime.steps", execution_id=execution, number=0, name="model", failed=0,
            outcome=json.dumps({"said": f"\n{word}"}))
        put(owner, "runtime.dispatches", id=self.new("dsp"), parent_request_id=request,
            root_request_id=request, parent_session_label=label, parent_execution_id=execution,
            call_id="c", worker_request_id=worker, worker_session_label=f"worker:{worker}",
            execution_id=execution, task=f"write to {word}")
        invocation = put(owner, "runtime.invocations", id=self.new("inv"), automation_id="aut_1",
                         automation_version=1, hook_point="runAutomations", request_id=worker,
                         root_request_id=request, blocking=1,
                         result_json=json.dumps({"memory": f"\n{word}"}), created_at=when)
        put(owner, "runtime.injections", id=self.new("inj"), invocation_id=invocation, request_id=worker,
            root_request_id=request, rank=1, item_kind="event", item_id=event_id, text_sha256="0", score=1.0,
            probability=0.5, why=f"about {word}", decided_by="triage", injected=1, created_at=when)
        put(owner, "runtime.spans", id=self.new("spn"), kind="model", name="call", started_at=when,
            attributes_json=json.dumps({"prompt": word}), **lineage)
        put(NOBODY, "runtime.usage", id=self.new("use"), provider="p", model="m", **lineage,
            created_at=clock.timestamp(START))
        # The ledger's own sums: of that one day, and of each message.
        self.tally[NOBODY]["runtime.usage_days"] = 1
        self.tally[NOBODY]["runtime.usage_roots"] += 1
        reply = put(owner, "events.events", id=self.new("evt"), thread_id=thread_id, channel="email",
                    direction="outbound", content=f"Dear {word}, {_FILLER}", request_id=request,
                    reply_to_event_id=event_id, occurred_at=clock.timestamp(at + timedelta(seconds=5)))
        put(owner, "events.event_participants", event_id=reply, role="sender", identifier=ME,
            entity_id="ent_me")
        put(owner, "events.event_participants", event_id=reply, role="recipient",
            identifier=f"{word}@{to}.example", contact_id=f"con_{to}", entity_id=to)
        self.turn(owner, word, f"ses_{thread_id}", at, request_id=request, event_id=event_id)

    def turn(self, owner: str, word: str, session_id: str, at: datetime, **values: Any) -> None:
        put, event_id, when = self.put, values.pop("event_id", None), clock.timestamp(at)
        self._positions[session_id] += 1
        position = self._positions[session_id]
        turn = put(owner, "agents.agent_turns", id=self.new("trn"), session_id=session_id, status="done",
                   position=position, started_at=when, ended_at=when, **values)
        message = ""
        for offset, role in enumerate(("user", "assistant")):
            message = put(owner, "agents.agent_messages", id=self.new("msg"), session_id=session_id,
                          turn_id=turn, position=2 * position + offset, role=role,
                          content=f"{role}: {word}", parts_json=json.dumps([word]),
                          event_id=None if offset else event_id)
        put(owner, "agents.agent_tool_calls", id=self.new("tcl"), session_id=session_id, turn_id=turn,
            message_id=message, tool_name="recall", arguments_json=json.dumps({"query": word}),
            result=f"facts on {word}", status="done")

    def fact(self, owner: str, word: str, about: str, source_event_id: str | None, **values: Any) -> str:
        fact = self.put(owner, "memory.facts", id=self.new("fact"), source_entity_id=about,
                        relation_type="LIKES", fact=f"{word} likes {_FILLER} {self._serial}",
                        source_event_id=source_event_id, metadata_json=json.dumps({"said": word}), **values)
        self.put(owner, "memory.fact_entities", fact_id=fact, entity_id=about)
        self.log(owner, "consolidation", "fact", fact, f"{word} was seen")
        self.exam(owner, word, fact, about)
        self.vector(owner, "fact", fact)
        self.facts[owner].append(fact)
        return fact

    def exam(self, owner: str, word: str, fact: str, about: str) -> None:
        """An exam of one fact, with what is wrong with it and a question that a model wrote."""
        exam = self.put(NOBODY, "memory.exams", id=self.new("exm"), sample_id="exm_1", facts=1,
                        settings_json="{}", duration_ms=1)
        self.put(owner, "memory.exam_answers", exam_id=exam, fact_id=fact, age="month", kind="attribute",
                 entity_id=about, asked=4, found=1)
        self.put(owner, "memory.exam_findings", exam_id=exam, fact_id=fact, kind="hidden",
                 detail=f"not found: {word}", fixes_json=json.dumps([[word, f"nexus memory pin {word}"]]))
        self.put(owner, "memory.exam_wordings", fact_id=fact, model="p/m", number=1,
                 question=f"What does {word} like?")

    def episode(self, owner: str, word: str, thread_id: str, events: list[str], about: str) -> str:
        """An episode of some events; nothing of its own says when it was."""
        episode = self.put(owner, "memory.episodes", id=self.new("epi"), channel="email",
                           thread_id=thread_id, title=f"{word} talked", summary=f"It was about {word}",
                           start_time=clock.timestamp(START), end_time=clock.timestamp(START))
        for position, event_id in enumerate(events):
            self.put(owner, "memory.episode_events", episode_id=episode, event_id=event_id,
                     position=position)
        self.put(owner, "memory.episode_entity_mentions", episode_id=episode, entity_id=about)
        self.vector(owner, "episode", episode)
        return episode

    def observation(self, owner: str, word: str, facts: list[str], about: str | None = None) -> None:
        """An observation, and two versions of a mental model that rests on it."""
        put = self.put
        observation = put(owner, "memory.analysis_runs", id=self.new("obs"), type_id="observation",
                          subject_entity_id=about, content=f"All say {word}")
        for fact in facts:
            put(owner, "memory.observation_facts", observation_id=observation, fact_id=fact)
        self.vector(owner, "observation", observation)
        model = put(owner, "memory.mental_models", id=self.new("mod"), name=f"on {word}",
                    content=f"{word} is liked")
        put(owner, "memory.mental_model_sources", model_id=model, source_type="observation",
            source_id=observation)
        newer = put(owner, "memory.mental_models", id=self.new("mod"), name=f"on {word}",
                    content=f"{word} is still liked", version=2, previous_version_id=model)
        self.vector(owner, "mental_model", newer)
