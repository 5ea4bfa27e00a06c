"""What a storm left behind: nothing may be lost, doubled, stuck or out of order."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, cast

import apsw

from nexus.broker.invariants import check
from nexus.home import LEDGERS, Home

from .place import LEASE_MS, Place
from .talk import MESSAGE, QUOTED, Talk

_ANSWERED = re.compile(r"ANS<(S\d+M\d+)>")
_HEARD = re.compile(r"HEARD<(S\d+M\d+)>")
# What breaks an invariant for so long stays broken, on a machine that is short of everything, too.
_PATIENCE_S = 300.0
# How often nothing may have moved before what is left counts as stuck. A slow machine looks less often.
_LOOKS = 300
_UNFINISHED = """
SELECT id, status, session_label FROM executions WHERE status IN ('queued', 'running')
UNION ALL
SELECT i.id, i.status, a.name FROM invocations AS i JOIN automations AS a ON a.id = i.automation_id
WHERE i.status IN ('queued', 'running') AND a.name <> 'ticker' ORDER BY 1
"""
_SAID = "SELECT count(*), coalesce(max(position), 0) FROM agent_messages"
_NOTES = """
SELECT e.id, count(i.id) FROM executions AS e JOIN requests AS r ON r.id = e.request_id
LEFT JOIN invocations AS i ON i.request_id = r.id AND i.status = 'done'
  AND i.automation_id IN (SELECT id FROM automations WHERE name = 'noter')
  AND json_extract(i.input_json, '$.result.execution_id') = e.id
WHERE e.status = 'done' AND e.taken_by IS NULL AND r.session_label = e.session_label GROUP BY e.id
"""


def settled(place: Place) -> list[str]:
    """What breaks an invariant and stays so while the storm goes on."""
    verdict = check(place.home, place.settings, patience_s=_PATIENCE_S)
    return [f"{each.invariant}: {each}" for each in verdict.violations]


def quiet(place: Place) -> list[str]:
    """Wait until nothing is under way; what is left when nothing moves any more."""
    before: object = None
    calm = still = 0
    while calm < 3:
        left = rows(place.home, "runtime", _UNFINISHED)
        now = (left, rows(place.home, "agents", _SAID))
        calm = calm + 1 if not left else 0
        still = still + 1 if now == before else 0
        before = now
        if still > _LOOKS:
            return [f"stuck: {id_} of {of} is {status}" for id_, status, of in left]
        time.sleep(LEASE_MS / 4000)
    return []


def final(place: Place, talk: Talk, outages: Sequence[tuple[str, str]]) -> list[str]:
    """Everything that is wrong with a home after its storm."""
    verdict = check(place.home, place.settings, patience_s=_PATIENCE_S, strict=True)
    return [
        *talk.problems,
        *(f"{each.invariant}: {each}" for each in verdict.violations),
        *_answers(place.home, talk),
        *_effects(place, talk),
        *_order(place.home, talk),
        *_failures(place.home, outages),
        *(
            f"{run} was noted {count} times"
            for run, count in rows(place.home, "runtime", _NOTES)
            if count != 1
        ),
        *_damage(place.home),
    ]


def rows(home: Home, ledger: str, statement: str) -> list[tuple[Any, ...]]:
    """Ask a ledger while others use it."""
    connection = apsw.Connection(str(home.ledger(ledger)), flags=apsw.SQLITE_OPEN_READONLY)
    with closing(connection):
        connection.set_busy_timeout(30_000)
        return cast("list[tuple[Any, ...]]", connection.execute(statement).fetchall())


def _answers(home: Home, talk: Talk) -> Iterable[str]:
    said = [row[0] for row in rows(home, "events", "SELECT content FROM events WHERE direction = 'outbound'")]
    answered = Counter(name for text in said for name in _ANSWERED.findall(text))
    heard = Counter(name for text in said for name in _HEARD.findall(text))
    for name in answered.keys() - {sent.name for sent in talk.accepted}:
        yield f"{name} was answered, and nobody was told that it was accepted"
    for sent in talk.accepted:
        if answered[sent.name] != 1:
            yield f"{sent.name} ({sent.kind}, {sent.mode}) was answered {answered[sent.name]} times"
        if sent.kind in {"wait", "fire"} and heard[sent.name] != 1:
            yield f"the worker of {sent.name} ({sent.kind}, {sent.mode}) reported {heard[sent.name]} times"


def _effects(place: Place, talk: Talk) -> Iterable[str]:
    """A tool that was interrupted may have done nothing, and the model is told; none does its work twice."""
    file = place.effects / "done"
    done = Counter(file.read_text().split()) if file.exists() else Counter[str]()
    yield from (f"the tool of {name} ran {count} times" for name, count in done.items() if count > 1)
    interrupted = rows(
        place.home,
        "agents",
        "SELECT arguments_json FROM agent_tool_calls WHERE tool_name = 'bash'"
        " AND (error IS NOT NULL OR result LIKE '%interrupted%')",
    )
    excused = str(interrupted)
    for sent in talk.accepted:
        if sent.kind == "effect" and not done[sent.name] and f"echo {sent.name} " not in excused:
            yield f"the tool of {sent.name} never ran"


def _order(home: Home, talk: Talk) -> Iterable[str]:
    """Every message is in its transcript once, and none behind one that was accepted later.

    Only `steer` may overtake what waits: it joins the run that is under way.
    """
    by_session: dict[str, list[str]] = defaultdict(list)
    statement = """SELECT s.label, m.content
    FROM agent_messages AS m JOIN agent_sessions AS s ON s.id = m.session_id
    WHERE m.role <> 'assistant' AND s.label LIKE 'storm-%' ORDER BY s.label, m.position"""
    for label, content in rows(home, "agents", statement):
        # One that joins a run stands behind the results of its tools.
        by_session[label] += [name for name, _ in MESSAGE.findall(QUOTED.sub("", content))]
    steering = {sent.name for sent in talk.accepted if sent.mode == "steer"}
    for sent in talk.accepted:
        if (count := by_session[sent.session].count(sent.name)) != 1:
            yield f"{sent.name} ({sent.kind}, {sent.mode}) is {count} times in its transcript"
    for label, names in by_session.items():
        for place, name in enumerate(names):
            # Names sort as they were accepted: a person sends one message after the other.
            passed = [each for each in names[place + 1 :] if each < name]
            if name in steering:
                passed = [each for each in passed if each in steering]
            if passed:
                yield f"{label} is out of order: {name} is before {passed} in {names}"


def excused(home: Home, outages: Sequence[tuple[str, str]]) -> set[str]:
    """Background runs that failed in an outage of the models: they don't wait, and are made again later."""
    statement = """SELECT id, coalesce(started_at, enqueued_at), ended_at FROM executions
    WHERE status = 'failed' AND session_label LIKE 'meeseeks:%' AND error LIKE '%Connection%'"""
    return {
        id_
        for id_, started_at, ended_at in rows(home, "runtime", statement)
        if any(started_at <= end and ended_at >= began for began, end in outages)
    }


def _failures(home: Home, outages: Sequence[tuple[str, str]]) -> Iterable[str]:
    statement = (
        "SELECT id, status, session_label, error FROM executions WHERE status IN ('failed', 'timeout')"
    )
    allowed = excused(home, outages)
    for id_, status, label, error in rows(home, "runtime", statement):
        if id_ not in allowed:
            yield f"{id_} of {label} ended as {status}: {error}"


def _damage(home: Home) -> Iterable[str]:
    for name in LEDGERS:
        if (found := rows(home, name, "PRAGMA integrity_check")) != [("ok",)]:
            yield f"{name} is damaged: {found[:3]}"
