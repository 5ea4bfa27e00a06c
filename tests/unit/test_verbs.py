"""`App`, `Client` and `Context` have the same verbs, with the same arguments and results."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from nexus import App, Client, Context, Matches
from nexus.automations import reminders
from nexus.gateway.api import executions, requests
from nexus.gateway.views import answers, sessions, usage
from nexus.gateway.views import requests as request_views
from nexus.ledgers import events
from nexus.memory.recall import item
from nexus.memory.recall.item import Item, Match, Named, Query, Reasons, Replacement
from nexus.memory.views import entities, page
from nexus.results import RunState, Trace, TraceStep
from nexus.runs import Totals
from nexus.serialization import decode, encode

# What only the process that has the home open can do: it hands over objects, or is the machinery's.
OF_THE_PROCESS = {
    "accept",
    "find_receipt",
    "forget_import",
    "forget_preview",
    "forget_session",
    "forget_session_preview",
    "memory_socket",
    "open_recall",
    "redact",
    "resume_forgetting",
    "run_automation",
    "services",
    "socket_folder",
    "verify_receipt",
}
# What a program beside the process reads, which in it the ledgers tell.
OVER_HTTP = {
    "decide",
    "entities",
    "execution",
    "last_message",
    "login_url",
    "newest_run",
    "request",
    "requests",
    "scheduled_messages",
    "sent_messages",
    "sessions",
    "transcript",
    "usage",
    "waiting_calls",
}
OPENING = {"open", "connect"}
# Arguments of the runtime's own callers.
INTERNAL = {"receive": {"role", "has_tools", "fork_of"}, "reflect": {"asking"}}


def verbs(kind: type[Any]) -> dict[str, Callable[..., Any]]:
    found = inspect.getmembers(kind, inspect.isroutine)
    return {name: each for name, each in found if not name.startswith("_")}


def shape(verb: Callable[..., Any], without: frozenset[str] = frozenset()) -> list[tuple[str, str, object]]:
    given = list(inspect.signature(verb).parameters.values())
    # Where a message comes from differs: `cli` in a process of its own, `api` over HTTP.
    return [
        (each.name, str(each.kind), None if each.name == "channel" else each.default)
        for each in given
        if each.name not in without and each.name != "self"
    ]


def result_of(verb: Callable[..., Any], namespace: dict[str, Any]) -> object:
    annotation = inspect.signature(verb).return_annotation
    return eval(annotation, namespace) if isinstance(annotation, str) else annotation  # noqa: S307 - our own


def test_every_verb_of_one_is_a_verb_of_the_other() -> None:
    assert verbs(App).keys() - verbs(Client).keys() - OF_THE_PROCESS - OPENING == set()
    assert verbs(Client).keys() - verbs(App).keys() - OVER_HTTP - OPENING == set()


@pytest.mark.parametrize("name", sorted(verbs(App).keys() & verbs(Client).keys()))
def test_a_verb_has_the_same_arguments_and_result_everywhere(name: str) -> None:
    own = shape(verbs(App)[name], frozenset(INTERNAL.get(name, ())))
    assert own == shape(verbs(Client)[name])
    namespace = {**vars(reminders), **vars(item), "list": list}
    results = [result_of(verbs(kind)[name], namespace) for kind in (App, Client)]
    assert results[0] == results[1]
    if name in verbs(Context):
        assert own == shape(verbs(Context)[name])
        assert result_of(verbs(Context)[name], namespace) == results[0]


def test_an_automation_recalls_as_programs_do() -> None:
    assert {"recall"} <= verbs(App).keys() & verbs(Client).keys() & verbs(Context).keys()


def test_what_the_api_describes_is_what_the_client_returns() -> None:
    for kind, described in (
        (RunState, executions.Execution),
        (Trace, requests.Trace),
        (TraceStep, requests.Step),
    ):
        assert {each.name for each in fields(kind)} == described.model_fields.keys()


def test_what_is_found_is_the_same_after_a_way_over_json() -> None:
    by = Replacement(id="fact_2", text="Red", at="2031-01-02T00:00:00.000Z", signals=("stated",))
    found = Item(kind="fact", id="fact_1", text="Blue", at="2031-01-01T00:00:00.000Z", replaced_by=by)
    reasons = Reasons(arms={"graph": (1, 0.5)}, matched_words=("tin",))
    match = Match(item=found, score=1.0, probability=0.5, tokens=2, reasons=reasons, also=("fact_3",))
    named = {"ent_1": Named("Ben", frozenset({"ben"}))}
    whole = Matches(results=(match,), threads=(("thr_1", 0.5),), named=named, timings_ms={"total": 1.0})
    assert decode(Matches, encode(whole)) == whole
    newer = {**encode(whole), "mood": "good"}
    assert decode(Matches, newer) == whole


@pytest.mark.parametrize(
    "kind",
    [
        reminders.Reminder,
        answers.LastMessage,
        events.Unasked,
        page.Page[sessions.SessionLine],
        page.Page[sessions.Message],
        page.Page[request_views.RequestLine],
        page.Page[entities.EntityLine],
        usage.Report,
    ],
)
def test_the_annotations_of_what_is_read_can_be_resolved(kind: Any) -> None:
    """Of what arrives, only what is missing is missed."""
    with pytest.raises(TypeError, match="missing"):
        decode(kind, {})


def test_an_option_narrows_a_question_or_a_query() -> None:
    query = item.make_query(Query(text="tea", max_results=3), {"about": "Ben", "kinds": ["fact"]})
    assert (query.max_results, query.entity_id, query.kinds) == (3, "Ben", frozenset({"fact"}))
    text, given = item.list_options(query, {})
    assert item.make_query(text, given) == query
    assert item.list_options("tea", {"limit": 2}) == ("tea", {"limit": 2})


def test_usage_is_added_up_from_json() -> None:
    assert decode(Totals, {"calls": 2}) + Totals(calls=1) == Totals(calls=3)
