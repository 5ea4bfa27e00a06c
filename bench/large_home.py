"""A home of any size, written straight into the ledgers: invented, the same each time."""

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import report

from nexus import clock
from nexus.home import Home
from nexus.memory.embedding.catalogue import VOCABULARY

_END = datetime.now(UTC)
_DAYS = 730
_EVENTS_OF_A_REQUEST = 4
_THREADS = 2_000
Rows = Iterator[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of it; the rest follows."""

    events: int
    facts: int

    @property
    def requests(self) -> int:
        return self.events // _EVENTS_OF_A_REQUEST

    @property
    def entities(self) -> int:
        return max(50, self.facts // 5)

    @property
    def episodes(self) -> int:
        return max(20, self.facts // 10)


def build_home(root: Path, size: Size) -> Home:
    """The home at a path, made where there is none yet."""
    home = Home(root)
    if root.exists():
        return home
    home.create()
    maker = _Maker(size)
    for name, fill in (
        ("events", maker.events),
        ("identity", maker.identity),
        ("memory", maker.memory),
        ("agents", maker.agents),
        ("runtime", maker.runtime),
    ):
        connection = apsw.Connection(str(home.ledger(name)))
        connection.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = off; PRAGMA foreign_keys = off")
        with connection:
            fill(connection)
        connection.execute("PRAGMA wal_checkpoint(truncate)")
        connection.close()
        report.progress(f"{name} is filled")
    return home


class _Maker:
    def __init__(self, size: Size) -> None:
        self._size = size
        self._random = random.Random(7)
        known = VOCABULARY.read_text(encoding="utf-8").splitlines()
        self._words = [word for word in known if word.isalpha() and word.isascii() and len(word) > 1]
        # Common words often and rare ones seldom, as in a natural language.
        self._shares = list(itertools.accumulate(1 / place for place in range(1, len(self._words) + 1)))

    def events(self, connection: apsw.Connection) -> None:
        _many(
            connection,
            "INSERT INTO threads (id, channel, external_id) VALUES (?, ?, ?)",
            ((f"thr_{n}", _channel(n), f"thread {n}" if n else "main") for n in range(_THREADS)),
        )
        _many(
            connection,
            "INSERT INTO events (id, thread_id, channel, direction, sender, content, request_id, occurred_at,"
            " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self._events(),
        )

    def identity(self, connection: apsw.Connection) -> None:
        count = self._size.entities
        _many(
            connection,
            "INSERT INTO entities (id, type, canonical_name, normalized_name, summary, created_at,"
            " updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (_entity(n), ("Person", "Company", "Place")[n % 3], f"Name {n}", f"name {n}", self._said(12),
                 *[self._at(n, count)] * 2)
                for n in range(count)
            ),
        )  # fmt: skip
        _many(
            connection,
            "INSERT INTO entity_aliases (id, entity_id, alias, type, normalized) VALUES (?, ?, ?, ?, ?)",
            (
                (f"ali_{n}_{kind}", _entity(n), f"{kind} {n}", kind, f"{kind} {n}")
                for n in range(count)
                for kind in ("name", "email")
            ),
        )
        reasons = json.dumps([{"signal": "name", "detail": "near"}])
        _many(
            connection,
            "INSERT INTO merge_candidates (id, entity_a_id, entity_b_id, score, reasons_json)"
            " VALUES (?, ?, ?, ?, ?)",
            ((f"mrg_{n}", _entity(2 * n), _entity(2 * n + 1), 0.7, reasons) for n in range(count // 20)),
        )

    def memory(self, connection: apsw.Connection) -> None:
        size = self._size
        _many(
            connection,
            "INSERT INTO episodes (id, channel, title, summary, start_time, end_time, event_count)"
            " VALUES (?, 'cli', ?, ?, ?, ?, 40)",
            (
                (f"epi_{n:06}", self._said(5), self._said(30), *[self._at(n, size.episodes)] * 2)
                for n in range(size.episodes)
            ),
        )
        _many(
            connection,
            "INSERT INTO episode_events (episode_id, event_id, position) VALUES (?, ?, ?)",
            (
                (f"epi_{n:06}", _event((n * 40 + m) % size.events), m)
                for n in range(size.episodes)
                for m in range(40)
            ),
        )
        _many(
            connection,
            "INSERT INTO episode_entity_mentions (episode_id, entity_id) VALUES (?, ?)"
            " ON CONFLICT DO NOTHING",
            ((f"epi_{n:06}", _entity(m * n % size.entities)) for n in range(size.episodes) for m in range(4)),
        )
        _many(
            connection,
            "INSERT INTO facts (id, source_entity_id, relation_type, target_entity_id, fact, valid_at,"
            " source_event_id, source_episode_id, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self._facts(),
        )
        _many(
            connection,
            "INSERT INTO analysis_runs (id, type_id, subject_entity_id, content, stale_at)"
            " VALUES (?, 'observation', ?, ?, ?)",
            (
                (f"obs_{n:06}", _entity(n % size.entities), self._said(30), None if n % 5 else _moment(0))
                for n in range(size.facts // 10)
            ),
        )
        _many(
            connection,
            "INSERT INTO observation_facts (observation_id, fact_id) VALUES (?, ?)",
            ((f"obs_{n:06}", f"fact_{n * 5 + m}") for n in range(size.facts // 10) for m in range(5)),
        )
        _many(
            connection,
            "INSERT INTO mental_models (id, name, subject_entity_id, content) VALUES (?, ?, ?, ?)",
            ((f"mod_{n:06}", f"Model {n}", _entity(n), self._said(120)) for n in range(size.entities // 10)),
        )

    def agents(self, connection: apsw.Connection) -> None:
        count = self._size.requests
        _many(
            connection,
            "INSERT INTO agent_sessions (id, label, role, updated_at) VALUES (?, ?, ?, ?)",
            (
                (f"ses_{n}", _label(n), "manager" if n < 20 else "worker", self._at(n, _THREADS))
                for n in range(_THREADS)
            ),
        )
        _many(
            connection,
            "INSERT INTO agent_turns (id, session_id, position, status, request_id, execution_id)"
            " VALUES (?, ?, ?, 'done', ?, ?)",
            ((f"trn_{n}", f"ses_{_session(n)}", n, _request(n), f"exe_{n:09}") for n in range(count)),
        )
        _many(
            connection,
            "INSERT INTO agent_messages (id, session_id, turn_id, position, role, content, event_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (f"msg_{n}_{role}", f"ses_{_session(n)}", f"trn_{n}", 2 * n + place, role,
                 self._said(40 if place else 14), None if place else _event(n * _EVENTS_OF_A_REQUEST))
                for n in range(count)
                for place, role in enumerate(("user", "assistant"))
            ),
        )  # fmt: skip

    def runtime(self, connection: apsw.Connection) -> None:
        count = self._size.requests
        _many(
            connection,
            "INSERT INTO requests (id, root_request_id, event_id, channel, session_label, role, stage,"
            " status, created_at, ended_at) VALUES (?, ?, ?, ?, ?, 'manager', 'finalize', ?, ?, ?)",
            (
                (_request(n), _request(n), _event(n * _EVENTS_OF_A_REQUEST), _channel(n), _label(_session(n)),
                 "failed" if n % 5_000 == 0 else "done", *[self._at(n, count)] * 2)
                for n in range(count)
            ),
        )  # fmt: skip
        _many(
            connection,
            "INSERT INTO executions (id, request_id, root_request_id, session_label, status, enqueued_at,"
            " started_at, ended_at) VALUES (?, ?, ?, ?, 'done', ?, ?, ?)",
            (
                (f"exe_{n:09}", _request(n), _request(n), _label(_session(n)), *[self._at(n, count)] * 3)
                for n in range(count)
            ),
        )
        _many(
            connection,
            "INSERT INTO usage (id, request_id, root_request_id, execution_id, provider, model, input_tokens,"
            " cache_read_tokens, output_tokens, cost_microusd, created_at, span_id)"
            " VALUES (?, ?, ?, ?, 'p', ?, 900, 20000, 300, 5000, ?, ?)",
            (
                (f"use_{n}_{m}", _request(n), _request(n), f"exe_{n:09}", f"model-{(n + m) % 4}",
                 self._at(n, count), f"spn_{n}_{m}")
                for n in range(count)
                for m in range(2)
            ),
        )  # fmt: skip
        kinds = (("model", "p/model"), ("model", "p/model"), ("tool", "recall"), ("stage", "receiveEvent"))
        _many(
            connection,
            "INSERT INTO spans (id, request_id, root_request_id, kind, name, started_at, duration_ms,"
            " outcome) VALUES (?, ?, ?, ?, ?, ?, 50, 'ok')",
            (
                (f"spn_{n}_{m}", _request(n), _request(n), kind, name, self._at(n, count))
                for n in range(count)
                for m, (kind, name) in enumerate(kinds)
            ),
        )
        _many(
            connection,
            "INSERT INTO automations (id, name, hook_point, script_path) VALUES (?, ?, 'finalize', ?)",
            ((f"aut_{name}", name, f"python:{name}") for name in ("busy", "quiet")),
        )
        _many(
            connection,
            "INSERT INTO invocations (id, automation_id, automation_version, hook_point, request_id,"
            " root_request_id, blocking, status, duration_ms, created_at)"
            " VALUES (?, 'aut_busy', 1, 'finalize', ?, ?, 0, 'done', 12, ?)",
            ((f"inv_{n:09}", _request(n), _request(n), self._at(n, count)) for n in range(count)),
        )

    def _events(self) -> Rows:
        size = self._size
        for number in range(size.events):
            asked, place = divmod(number, _EVENTS_OF_A_REQUEST)
            thread = _session(asked)
            at = self._at(number, size.events)
            answer = place == 1
            yield (
                _event(number), f"thr_{thread}", _channel(thread), "outbound" if answer else "inbound",
                "nexus" if answer else "owner", self._said(14), _request(asked) if answer else None, at, at,
            )  # fmt: skip

    def _facts(self) -> Rows:
        size = self._size
        for number in range(size.facts):
            source = 0 if number % 3 == 0 else number % size.entities
            at = self._at(number, size.facts)
            target = _entity(number * 7 % size.entities)
            yield (
                f"fact_{number}", _entity(source), "KNOWS", target, self._said(10), at,
                _event(number % size.events), f"epi_{number % size.episodes:06}", at,
            )  # fmt: skip

    def _said(self, words: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._shares, k=words))

    def _at(self, number: int, count: int) -> str:
        """Spread evenly over two years, the last one now."""
        return _moment(_DAYS * (1 - number / count))


def _many(connection: apsw.Connection, statement: str, rows: Rows) -> None:
    connection.executemany(statement, rows)


def _moment(days_ago: float) -> str:
    return clock.timestamp(_END - timedelta(days=days_ago))


def _event(number: int) -> str:
    return f"evt_{number:09}"


def _request(number: int) -> str:
    return f"req_{number:09}"


def _entity(number: int) -> str:
    return f"ent_{number:06}"


def _channel(number: int) -> str:
    return ("cli", "email", "signal")[number % 3]


def _session(number: int) -> int:
    """Every second request is in one session."""
    return 0 if number % 2 else number % _THREADS


def _label(number: int) -> str:
    return "main" if number == 0 else f"session-{number}"
