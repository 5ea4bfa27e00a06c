"""Whatever is made, named, merged and taken apart: each entity has one root, and un-merge is exact.

NEXUS_LONG=1 runs ten thousand sequences.
"""

import json
from typing import Any

import apsw
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from long_form import times
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.memory import merging, references
from nexus.memory.operations import parse
from nexus.memory.writing import Provenance, Scope

_SEQUENCES = times(40, long=10_000)
_TABLES = ("entities", "entity_aliases", "alias_keys", "persons", "merge_candidates")

# Few and near, so that names collide, resemble each other and differ in a number.
NAMES = st.sampled_from(["Sarah Chen", "Sara Chen", "Room 101", "Room 102", "Tyler", "ﬁona", "FIONA", "Ünal"])
ALIASES = st.sampled_from(
    ["sarah@example.com:email", "+1 650 253 0000:phone", "@sarah:handle", "Sarah:name", "Sarah Chen:name"]
)


class Merging(RuleBasedStateMachine):
    """The identity ledger beside a model of it: who points at whom, and which aliases each was given."""

    entities = Bundle("entities")
    merges = Bundle("merges")

    def __init__(self) -> None:
        super().__init__()
        self.connection = apsw.Connection(":memory:")
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute(sql.text("identity", "schema.sql"))
        self.pointers: dict[str, str] = {}
        self.aliases: dict[str, set[tuple[str, str]]] = {}
        self.ticks = 0

    def teardown(self) -> None:
        self.connection.close()

    def run(self, operation: str, **arguments: Any) -> dict[str, Any]:
        self.ticks += 1
        step = parse(operation, arguments)
        scope = Scope(provenance=Provenance(actor="test"), now=f"2026-01-01T00:00:00.{self.ticks:03d}Z")
        with self.connection:
            step.in_identity(self.connection, scope)
        return step.answer()

    def root(self, entity: str) -> str:
        seen = {entity}
        while entity in self.pointers:
            entity = self.pointers[entity]
            assert entity not in seen, "a circle"
            seen.add(entity)
        return entity

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that un-merging must bring back."""
        return {
            table: sorted(self.connection.execute(f"SELECT * FROM {table}"), key=repr) for table in _TABLES
        }

    @rule(target=entities, name=NAMES, aliases=st.lists(ALIASES, max_size=2))
    def make(self, name: str, aliases: list[str]) -> str:
        made = self.run("entity", name=name, type="Person", alias=aliases)
        rows = self.connection.execute(
            "SELECT type, normalized FROM entity_aliases WHERE entity_id = ?", (made["id"],)
        )
        self.aliases[made["id"]] = {(str(type_), str(text)) for type_, text in rows}
        return made["id"]

    @rule(entity=entities, alias=ALIASES)
    def name(self, entity: str, alias: str) -> None:
        for added in self.run("alias", entity=entity, alias=[alias])["aliases"]:
            assert added["new"] == ((added["type"], added["normalized"]) not in self.aliases[entity])
            self.aliases[entity].add((added["type"], added["normalized"]))

    @rule(target=merges, source=entities, target_entity=entities)
    def merge(self, source: str, target_entity: str) -> tuple[str, str]:
        before = self.contents()
        top = self.root(source)
        if top == self.root(target_entity):
            try:
                self.run("merge", source=source, target=target_entity)
            except UsageError:
                assert self.contents() == before
                return top, ""
            raise AssertionError("what is one cannot be merged")
        answer = self.run("merge", source=source, target=target_entity)
        self.pointers[top] = target_entity
        assert (answer["merged"], answer["into"], answer["root"]) == (top, target_entity, self.root(source))
        return top, target_entity

    @rule(source=entities, other=entities)
    def merge_and_take_back_at_once(self, source: str, other: str) -> None:
        if self.root(source) == self.root(other):
            return
        before = self.contents()
        merged = self.run("merge", source=source, target=other)
        assert self.contents() != before
        self.run("unmerge", entity=merged["merged"])
        assert self.contents() == before

    @rule(merged=consumes(merges))
    def take_back(self, merged: tuple[str, str]) -> None:
        entity, into = merged
        if not into or self.pointers.get(entity) != into:
            return
        before = self.contents()
        answer = self.run("unmerge", entity=entity)
        del self.pointers[entity]
        assert answer["was_merged_into"] == into
        after = self.contents()
        assert {table: after[table] for table in _TABLES[1:4]} == {
            table: before[table] for table in _TABLES[1:4]
        }

    @rule(entity=entities)
    def take_back_what_is_not_merged(self, entity: str) -> None:
        if entity in self.pointers:
            return
        before = self.contents()
        try:
            self.run("unmerge", entity=entity)
        except UsageError:
            assert self.contents() == before
        else:
            raise AssertionError("nothing was merged")

    @precondition(lambda self: self.aliases)
    @rule()
    def take_everything_back(self) -> None:
        while self.pointers:
            entity, _ = self.pointers.popitem()
            self.run("unmerge", entity=entity)

    @invariant()
    def pointers_are_those_of_the_model(self) -> None:
        rows = self.connection.execute("SELECT id, merged_into FROM entities WHERE merged_into IS NOT NULL")
        assert {str(entity): into for entity, into in rows} == self.pointers

    @invariant()
    def a_candidate_is_accepted_while_its_merge_stands(self) -> None:
        rows = self.connection.execute(
            "SELECT entity_a_id, entity_b_id, status, resolved_by, resolved_at FROM merge_candidates"
        )
        for one, other, status, by, at in rows:
            merged = self.pointers.get(str(one)) == other or self.pointers.get(str(other)) == one
            assert status == ("accepted" if merged else "pending")
            assert (by is None, at is None) == (not merged, not merged)

    @invariant()
    def every_entity_has_one_root(self) -> None:
        rows = self.connection.execute("SELECT id, root_id FROM entity_roots").fetchall()
        assert sorted(map(tuple, rows)) == sorted((entity, self.root(entity)) for entity in self.aliases)
        for entity in self.aliases:
            assert merging.root(self.connection, entity) == self.root(entity)
            same = {other for other in self.aliases if self.root(other) == self.root(entity)}
            assert set(merging.family(self.connection, entity)) == same

    @invariant()
    def aliases_stay_where_they_were_given_and_resolve_to_the_root(self) -> None:
        rows = self.connection.execute("SELECT entity_id, type, normalized FROM entity_aliases").fetchall()
        given = {(entity, *alias) for entity, aliases in self.aliases.items() for alias in aliases}
        assert {tuple(row) for row in rows} == given
        assert len(rows) == len(given)
        for normalized in {text for _, _, text in given}:
            owners = {self.root(entity) for entity, _, text in given if text == normalized}
            assert set(references.find_called(self.connection, normalized)) == owners

    @invariant()
    def the_audit_explains_every_pointer(self) -> None:
        replayed: dict[str, str] = {}
        standing: dict[str, str] = {}
        rows = self.connection.execute(
            "SELECT id, action, source_entity_id, target_entity_id, undoes_id, before_json "
            "FROM entity_merge_events ORDER BY rowid"
        )
        for id_, action, source, target, undoes, before in rows:
            if action == "merge":
                assert source not in replayed
                assert json.loads(str(before))["asked"] in self.aliases
                replayed[str(source)], standing[str(source)] = str(target), str(id_)
            else:
                assert undoes == standing.pop(str(source))
                assert replayed.pop(str(source)) == target
        assert replayed == self.pointers

    @invariant()
    def rooms_with_other_numbers_are_never_proposed_by_likeness(self) -> None:
        rows = self.connection.execute(
            "SELECT a.normalized_name, b.normalized_name, reasons_json FROM merge_candidates "
            "JOIN entities a ON a.id = entity_a_id JOIN entities b ON b.id = entity_b_id"
        )
        for one, other, reasons in rows:
            if {one, other} == {"room 101", "room 102"}:
                signals = {reason["signal"] for reason in json.loads(str(reasons))}
                assert signals & {"same email", "same phone", "same handle", "same name"}


TestMerging = Merging.TestCase
TestMerging.settings = settings(
    max_examples=_SEQUENCES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
