"""A model writes the owner's profile: only what facts support is taken, and no restriction is left out."""

import json
import re
from collections.abc import Callable

import pytest

from nexus.app import App
from nexus.home import Home
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.profile import OwnerProfile, versions
from nexus.roles import conclusions
from nexus.testing import ModelRequest, ModelServer
from unit.roles.consolidation.scene import consolidated, one_for_all, steady

_EXAMPLE = re.compile(r"^(Good|Bad): (.*?)\n\n((?:    .*\n?)+)", re.MULTILINE)
_NAMES = {"<PERSON_A>": "Quillon", "<CITY_A>": "Ostrava"}
FACTS = [
    "The owner is allergic to nuts",
    "Elin is the owner's sister",
    "Elin is vegetarian",
    "The owner lives in Gothenburg",
    "The owner prefers short answers",
    *(f"The owner wants to read book {number}" for number in range(9)),
]


def asks_for_profile(request: ModelRequest) -> bool:
    return "Write the owner's profile" in request.last_user


def answer(*lines: tuple[str, str]) -> Callable[[ModelRequest], str]:
    """Answers with lines, each with the text of the fact that it cites."""

    def given(request: ModelRequest) -> str:
        labels = {
            text: label for label, text in re.findall(r"^(F\w+)\. (.*)$", request.last_user, re.MULTILINE)
        }
        return json.dumps(
            {"lines": [{"text": text, "facts": [labels.get(fact, "F0000")]} for text, fact in lines]}
        )

    return given


async def learned(app: App, *facts: str) -> None:
    seen = Seen(channel="cli", identifier="owner", display_name="Owner", event_id=None, is_owner=True)
    await app.ledgers.identity.write(senders.resolve, seen=seen)
    await app.memory.run("entity", {"id": "elin", "name": "Elin", "type": "Person"})
    for fact in facts:
        about = {"about": "elin" if fact.startswith("Elin") else "Owner"}
        more = {"entities": ["Owner"]} if "owner's" in fact else {}
        await app.memory.run("fact", {"fact": fact, **about, **more})


async def content(app: App) -> list[str]:
    version = await versions.newest(app.ledgers)
    assert version is not None
    return version.content.splitlines()


async def test_supported_lines_are_taken_and_a_left_out_restriction_is_put_back(
    home: Home, server: ModelServer
) -> None:
    server.when(asks_for_profile).always(
        answer(
            ("Elin, the owner's sister, is vegetarian.", "Elin is vegetarian"),
            ("The owner has lived in Gothenburg since 2019.", "The owner lives in Gothenburg"),
            ("The owner prefers short answers.", "The owner prefers short answers"),
            ("The owner likes jazz.", "nothing"),
        )
    )
    server.when(lambda request: not asks_for_profile(request)).always(one_for_all)
    async with App(home, steady(server)) as app:
        await learned(app, *FACTS)
        assert (await consolidated(app))["stopped"] == ""
        version = await versions.newest(app.ledgers)
        assert version is not None
        assert version.origin == "consolidation"
        assert await content(app) == [
            "- The owner is allergic to nuts",
            "- Elin, the owner's sister, is vegetarian.",
            "- The owner prefers short answers.",
        ]
        cited = await versions.citations(app.ledgers, version.id)
        assert [each.fact for each in cited] == [FACTS[0], FACTS[2], FACTS[4]]
        asked = sum(map(asks_for_profile, server.requests))
        await consolidated(app)
        assert sum(map(asks_for_profile, server.requests)) == asked, "nothing new was learned"


async def test_the_owners_own_words_stay(home: Home, server: ModelServer) -> None:
    server.when(asks_for_profile).always(answer(("The owner prefers short answers.", FACTS[4])))
    server.when(lambda request: not asks_for_profile(request)).always(one_for_all)
    async with App(home, steady(server)) as app:
        await OwnerProfile(app.ledgers).write("I am Mona.")
        await learned(app, *FACTS)
        await consolidated(app)
        assert (await content(app))[0] == "I am Mona."
        assert "- The owner prefers short answers." in await content(app)


@pytest.mark.parametrize(
    "bad", ["No idea.", '{"lines": []}', '{"lines": [{"text": "Yes", "facts": ["F1"]}]}']
)
async def test_without_a_usable_answer_the_rule_makes_it(home: Home, server: ModelServer, bad: str) -> None:
    server.when(asks_for_profile).always(bad)
    server.when(lambda request: not asks_for_profile(request)).always(one_for_all)
    async with App(home, steady(server)) as app:
        await learned(app, *FACTS)
        await consolidated(app)
        version = await versions.newest(app.ledgers)
        assert version is not None
        assert version.origin == "facts"
        assert "- The owner is allergic to nuts" in await content(app)


async def test_a_few_facts_need_no_model(home: Home, server: ModelServer) -> None:
    server.always(one_for_all)
    async with App(home, steady(server)) as app:
        await learned(app, *FACTS[:5])
        await consolidated(app)
        assert not any(map(asks_for_profile, server.requests))
        assert "- The owner is allergic to nuts" in await content(app)


@pytest.mark.parametrize(("kind", "title", "lines"), _EXAMPLE.findall(conclusions.load_profile_task()))
def test_an_example_is_taken_or_dropped_as_it_says(kind: str, title: str, lines: str) -> None:
    said = lines
    for placeholder, name in _NAMES.items():
        said = said.replace(placeholder, name)
    facts = {
        f"fact_{label[1:]}": text for label, text in re.findall(r"^    (F\w+)\. (.*)$", said, re.MULTILINE)
    }
    (given,) = re.findall(r"^    (\{.*\})$", said, re.MULTILINE)
    assert bool(conclusions.check_lines(given, facts)) == (kind == "Good"), title
    # As it stands in the prompt, a line with a placeholder never passes.
    assert "<" not in str(conclusions.check_lines(lines.strip().splitlines()[-1], facts))
