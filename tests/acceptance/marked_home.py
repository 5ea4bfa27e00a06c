"""A large home in which everything that belongs to a target carries that target's marker word."""

import json
from datetime import UTC, datetime, timedelta

from acceptance.marked_rows import ME, NOBODY, START, MarkedRows
from nexus import clock
from nexus.home import LEDGERS, Home
from nexus.ledgers import sql

# The word that stands in every text of a target. It ends so that the full-text index keeps only a stem
# of it, and `STEMS` holds what the word and its stem have in common.
WORDS = {"entity": "Vexolarking", "thread": "Quorblattings", "range": "Zymphoraned"}
STEMS = {"entity": "vexolark", "thread": "quorblat", "range": "zymphoran"}
RANGE = ("2025-06-10T00:00:00.000Z", "2025-06-11T00:00:00.000Z")
ENTITY_ID, THREAD_ID = "ent_wanted", "thr_wanted"

_BLOCK = 10
_EVENTS_OF_A_THREAD = 500


class MarkedHome(MarkedRows):
    """Some `events`, of which each target has `marked`."""

    def __init__(self, home: Home, events: int, marked: int) -> None:
        super().__init__(home)
        self._settings()
        self._background(events - 3 * marked)
        self._others = self.facts[NOBODY][:3]
        self._entity(marked)
        self._thread(marked)
        self._range(marked)
        self.close()

    def talk(self, owner: str, word: str, thread_id: str, at: datetime, sender: str, count: int) -> None:
        """Blocks of ten events in a thread. Each block is an episode, with an answer and facts."""
        for block in range(count // _BLOCK):
            when = at + timedelta(minutes=block)
            events = [
                self.event(owner, word, thread_id, when + timedelta(seconds=place), sender)
                for place in range(_BLOCK - 1)
            ]
            self.attach_file(owner, word, events[0])
            self.answer(owner, word, thread_id, when, events[0], sender)
            self._learn(owner, word, self.episode(owner, word, thread_id, events, sender), events[1], sender)
            if block % 5 == 4:
                self.observation(owner, word, self.facts[owner][-4:], sender)

    # A row is a paragraph here, which one argument on a line would hide.
    # fmt: off

    def _learn(self, owner: str, word: str, episode: str, event_id: str, about: str) -> None:
        cause, effect = (self.fact(owner, word, about, event_id, source_episode_id=episode) for _ in "12")
        self.put(owner, "memory.causal_links", id=self.new("cau"), cause_fact_id=cause,
                 effect_fact_id=effect, source_episode_id=episode)
        self.put(owner, "memory.episode_relationship_mentions", episode_id=episode, relationship_id=cause,
                 extracted_fact=f"{word} likes it")

    def _settings(self) -> None:
        """What every home has. It belongs to nobody."""
        put = self.put
        put(NOBODY, "embeddings.embedding_models", id="m", dimensions=16)
        put(NOBODY, "runtime.automations", id="aut_1", name="writer")
        put(NOBODY, "identity.entities", id="ent_me", type="Person", canonical_name="Me",
            normalized_name="me")
        put(NOBODY, "identity.persons", id="per_me", entity_id="ent_me", display_name="Me", is_owner=1)
        self.tally[NOBODY]["memory.analysis_types"] += 1
        for ledger in LEDGERS:
            self.tally[NOBODY][f"{ledger}.schema_migrations"] += len(sql.migrations(ledger))

    def _background(self, events: int) -> None:
        for number in range(events // _EVENTS_OF_A_THREAD):
            entity = self.person(NOBODY, "somebody", f"ent_{number}")
            thread = self.thread(NOBODY, "things", f"thr_{number}")
            at = START + timedelta(hours=number)
            self.talk(NOBODY, "things", thread, at, entity, _EVENTS_OF_A_THREAD)

    def _entity(self, events: int) -> None:
        """What it said, what others said that names it, and what is known about it."""
        owner, word, put, at = "entity", WORDS["entity"], self.put, datetime(2025, 3, 3, tzinfo=UTC)
        self.person(owner, word, ENTITY_ID)
        put(owner, "identity.entities", id="ent_merged", type="Person", normalized_name="x",
            canonical_name=f"{word} the second", merged_into=ENTITY_ID)
        put(owner, "identity.entity_merge_events", id=self.new("mev"), action="merge", actor="a",
            source_entity_id="ent_merged", target_entity_id=ENTITY_ID, before_json=json.dumps({"n": word}))
        put(owner, "identity.merge_candidates", id=self.new("mrg"), entity_a_id="ent_0", score=0.5,
            entity_b_id=ENTITY_ID, reasons_json=json.dumps([f"both are {word}"]))
        self.thread(owner, word, "thr_of_entity")
        self.talk(owner, word, "thr_of_entity", at, ENTITY_ID, events // 2)
        for place in range(events // 2):
            self.event(owner, word, "thr_0", at + timedelta(seconds=place), "ent_0")
        self.turn(owner, word, "ses_thr_0", at)
        self._texts_of_others(owner, word, at)
        self._mixed(owner, word)

    def _texts_of_others(self, owner: str, word: str, at: datetime) -> None:
        """Rows that stay and lose what names the entity."""
        put, kept = self.put, self.event(NOBODY, "things", "thr_0", at, "ent_0")
        put(NOBODY, "events.event_participants", event_id=kept, role="recipient", identifier=ME,
            entity_id="ent_me")
        put(owner, "events.event_participants", event_id=kept, role="cc", display_name=word,
            identifier=f"{word}@work.example", entity_id=ENTITY_ID)
        put(owner, "events.event_participants", event_id=kept, role="observer", identifier=word)
        put(NOBODY, "events.threads", id="thr_titled", channel="email", title=f"With {word} and others",
            external_id=f"group-{word}", metadata_json=json.dumps({"who": [f"\n{word}"]}))
        self.event(NOBODY, "things", "thr_titled", at, "ent_0")
        put(NOBODY, "runtime.spans", id=self.new("spn"), request_id="req_none", root_request_id="req_none",
            kind="tool", name="t", started_at=clock.timestamp(at), attributes_json=json.dumps({"q": word}))
        put(NOBODY, "identity.entities", id="ent_friend", type="Person", canonical_name="Friend",
            normalized_name="friend", summary=f"A friend of {word}")
        self.fact(owner, f"Friend knows {word}", "ent_friend", None)
        self.fact(NOBODY, "Friend", "ent_friend", None)

    def _thread(self, events: int) -> None:
        """All that was said in it, and somebody who is known from it alone."""
        owner, word, at = "thread", WORDS["thread"], datetime(2025, 4, 4, tzinfo=UTC)
        self.thread(owner, word, THREAD_ID)
        met = self.event(owner, word, THREAD_ID, at, "ent_0")
        sender = self.person(owner, word, "ent_of_thread", source_event_id=met)
        self.talk(owner, word, THREAD_ID, at, sender, events - _BLOCK)
        self._mixed(owner, word)

    def _range(self, events: int) -> None:
        """A day: a thread of its own, part of another, and rows without an origin."""
        owner, word, at = "range", WORDS["range"], clock.parse(RANGE[0])
        met = self.event(owner, word, "thr_0", at, "ent_0")
        sender = self.person(owner, word, "ent_of_range", source_event_id=met)
        self.thread(owner, word, "thr_of_range", at)
        self.talk(owner, word, "thr_of_range", at, sender, events // 2)
        self.talk(owner, word, "thr_0", at + timedelta(hours=12), "ent_0", events // 2 - _BLOCK)
        self.turn(owner, word, "ses_thr_0", at)
        self.fact(owner, word, "ent_0", None, created_at=clock.timestamp(at))
        self.put(owner, "events.bus_events", type="home.noted", payload_json=json.dumps({"what": word}),
                 created_at=clock.timestamp(at))
        self._mixed(owner, word)
        # What was written about somebody who stays rests on facts that go, and so does its vector.
        self._goes_along(owner, "embeddings.embeddings")

    def _mixed(self, owner: str, word: str) -> None:
        """An observation that rests on one of the target's facts and on one that stays."""
        self.observation(owner, word, [self.facts[owner][0], self._others.pop()])
        # The one that stays can be consolidated again.
        self._goes_along(owner, "memory.processing_log")

    def _goes_along(self, owner: str, path: str) -> None:
        self.tally[NOBODY][path] -= 1
        self.tally[owner][path] += 1
