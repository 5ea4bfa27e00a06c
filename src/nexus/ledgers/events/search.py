"""Full-text search over what was said."""

from dataclasses import dataclass
from typing import cast

import apsw

from nexus.ledgers import keywords, sql
from nexus.ledgers.text import match_any, words


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """An event that a search found. A higher score is a better match; 0 means found, not ranked."""

    id: str
    thread_id: str | None
    channel: str
    sender: str | None
    content: str
    occurred_at: str
    score: float


def search(connection: apsw.Connection, text: str, limit: int) -> list[Hit]:
    """Return the events that best match any words of the text (BM25), at most `limit`, best first.

    Any text may be given; nothing in it is an operator. Where all its words are very frequent, the
    newest events that hold them come instead.
    """
    hits: dict[str, Hit] = {}
    for plan in keywords.plans(_frequencies(connection, text)):
        if len(hits) < limit:
            for hit in _run(connection, plan, limit):
                hits.setdefault(hit.id, hit)
    return list(hits.values())[: max(0, limit)]


def _frequencies(connection: apsw.Connection, text: str) -> list[keywords.Frequency]:
    queries = sql.queries("events")

    def probe(word: str, most: int) -> tuple[int, int]:
        row = connection.execute(queries["newest_matches"], (match_any([word]), most)).fetchone()
        return cast("tuple[int, int]", row)

    newest = cast("int | None", connection.execute(queries["newest_seq"]).get)
    return keywords.frequencies(words(text), newest or 0, probe)


def _run(connection: apsw.Connection, plan: keywords.Plan, limit: int) -> list[Hit]:
    statement = sql.queries("events")["search" if plan.ranked else "search_newest"]
    return [
        Hit(
            id=id_,
            thread_id=thread_id,
            channel=channel,
            sender=sender,
            content=content,
            occurred_at=occurred_at,
            score=score,
        )
        for id_, thread_id, channel, sender, content, occurred_at, score in connection.execute(
            statement, (plan.match, limit)
        )
    ]
