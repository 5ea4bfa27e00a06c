"""The memory writer in structured mode: what was said, what the model found, what the memory holds."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from acceptance.agents import environment, finish
from acceptance.agents import rows as written_rows
from apps import settings
from memory_writers import extracted, extracting, invocations, is_extractor, is_reflection, quiet, rows
from nexus.app import App
from nexus.config import ModelsConfig
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, Turn
from unit.roles.test_evidence import CORRECTIONS, FLIGHT

_FACTS = "SELECT fact, source_type, confidence FROM facts ORDER BY seq"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as made:
        made.when(is_reflection).always("Nothing learned")
        yield made


async def talk(app: App, server: ModelServer, *turns: tuple[str, str, str | None]) -> None:
    """Each turn: what the owner says, what the agent answers, and what the writer's model finds in it."""
    for said, answer, found in turns:
        server.script(answer)
        if found is not None:
            server.when(is_extractor).script(found)
        await (await app.send(said)).result()
        await quiet(app)


async def test_the_managers_model_writes_the_memory_where_no_writer_is_set(
    home: Home, server: ModelServer
) -> None:
    config = settings(server, "openai")
    async with App(home, replace(config, models=ModelsConfig(manager=config.models.manager))) as app:
        await talk(
            app, server, ("My dog is called Rex.", "Noted.", extracted(("owner", "My dog is called Rex")))
        )
        learned = await rows(app, "memory", "SELECT fact FROM facts")
        calls = await rows(app, "runtime", "SELECT count(*) FROM usage WHERE role = 'writer'")
    assert learned == [("The owner's dog is called Rex",)]
    assert calls == [(1,)]


async def test_facts_people_and_their_names_are_written_from_one_call(
    home: Home, server: ModelServer
) -> None:
    said = (
        "I'm Mara Lindqvist. My sister Hana, everyone calls her Hani, was born on 4 May 1990 and is "
        "allergic to cashews. Her mail is hana@example.org."
    )
    found = extracted(
        ("Hana", "Hana is Mara Lindqvist's sister"),
        ("Hana", "Hana was born on 4 May 1990"),
        ("Hana", "Hana is allergic to cashews"),
        ("Hana", "Hana's email is hana@example.org"),
        ("Sarah Chen", "Sarah Chen leads Project X"),
        people={"Mara Lindqvist": "", "Hana": "Hani"},
    )
    async with extracting(home, server) as app:
        await talk(app, server, (said, "Nice to meet you, Mara.", found))
        learned = await rows(app, "memory", _FACTS)
        ties = await rows(app, "memory", "SELECT relation_type FROM facts WHERE relation_type IS NOT NULL")
        owner = await rows(
            app,
            "identity",
            "SELECT canonical_name FROM entities WHERE id IN"
            " (SELECT entity_id FROM persons WHERE is_owner = 1)",
        )
        aliases = await rows(
            app,
            "identity",
            "SELECT alias FROM entity_aliases AS a JOIN entities AS e"
            " ON e.id = a.entity_id WHERE e.canonical_name = 'Hana' ORDER BY alias",
        )
        hard = await rows(app, "identity", "SELECT fact_type, value FROM person_facts ORDER BY fact_type")
        (run,) = await invocations(app)
        calls = await rows(app, "runtime", "SELECT count(*) FROM usage WHERE role = 'writer'")
    assert learned == [
        ("Hana is Mara Lindqvist's sister", "mentioned", 1.0),
        ("Hana was born on 4 May 1990", "mentioned", 1.0),
        ("Hana is allergic to cashews", "mentioned", 1.0),
        ("Hana's email is hana@example.org", "mentioned", 1.0),
    ]
    assert ties == [("SIBLING",)]
    assert owner == [("Mara Lindqvist",)]
    assert aliases == [("Hana",), ("Hani",), ("hana@example.org",)]
    assert hard == [("birthday", "1990-05-04"), ("diet", "Hana is allergic to cashews")]
    assert calls == [(1,)]
    assert run["refused"] != []
    assert "Sarah" not in str(learned)


async def say(app: App, text: str, session: str) -> None:
    await (await app.send(text, session_label=session)).result()
    await quiet(app)


async def test_twelve_corrections_of_a_recalled_memory_replace_it_on_the_owners_word(
    home: Home, server: ModelServer
) -> None:
    """In six languages: each is written once, as the owner's, and the old fact is stated to be replaced."""
    answers: dict[str, str] = {}
    server.when(is_extractor).always(lambda request: Turn(_found(request, answers)))
    async with extracting(home, server) as app:
        for number, (language, said) in enumerate(CORRECTIONS):
            old, new = FLIGHT[language]
            await app.memory.run("fact", {"fact": old})
            answers[said] = extracted(("owner", new), ("owner", old))
            server.script(old, "Noted.")
            session = f"flight{number}"
            await say(app, "When is it?", session)
            await say(app, said, session)
        learned = await rows(
            app,
            "memory",
            "SELECT fact, source_type, confidence, json_extract(metadata_json, '$.speaker') FROM facts"
            " WHERE source_event_id IS NOT NULL ORDER BY seq",
        )
    told = [str(row[0]).replace("The owner's flight", "The flight") for row in learned]
    assert told == [FLIGHT[language][1] for language, _ in CORRECTIONS]
    assert {row[1:] for row in learned} == {("self_disclosed", 1.0, "owner")}


def _found(request: ModelRequest, answers: dict[str, str]) -> str:
    """What was scripted for the message that is asked about."""
    return next(found for said, found in answers.items() if said in request.last_user.rpartition("[1]")[2])


@pytest.mark.parametrize(
    ("asked", "said", "fact"),
    [
        ("Is Hana vegetarian?", "yes", "Hana is vegetarian"),
        ("Ist Hana Vegetarierin?", "ja", "Hana ist Vegetarierin"),
        ("¿Hana es vegetariana?", "sí", "Hana es vegetariana"),
        ("Hana est végétarienne ?", "oui", "Hana est végétarienne"),
        ("A Hana é vegetariana?", "sim", "Hana é vegetariana"),
        ("ハナはベジタリアンですか?", "はい", "ハナはベジタリアンです"),
    ],
)
async def test_a_one_word_answer_is_the_owners_word(
    home: Home, server: ModelServer, asked: str, said: str, fact: str
) -> None:
    name = "ハナ" if "ハナ" in fact else "Hana"
    async with extracting(home, server) as app:
        await talk(
            app,
            server,
            ("Hi, who comes to dinner?", asked, None),
            (said, "Noted.", extracted((name, fact), people={name: ""})),
        )
        learned = await rows(app, "memory", _FACTS)
    assert learned == [(fact, "mentioned", 1.0)]


async def test_jokes_suppositions_questions_proposals_and_echoes_are_not_written(
    home: Home, server: ModelServer
) -> None:
    tried = {
        "I quit my job today! Just kidding.": extracted(("owner", "The owner quit their job")),
        "I need milk. If I moved to Oslo, I would.": extracted(("owner", "The owner moved to Oslo")),
        "Erik is coming. Does he like sushi?": extracted(("Erik", "Erik likes sushi")),
        "I'm not allergic to nuts.": extracted(("owner", "The owner is allergic to nuts")),
        "That sounds nice. Hm.": extracted(("owner", "The owner visits Paolo in Rome")),
        "Great, I will think about it.": extracted(("owner", "The owner's dentist is Dr. Weber")),
    }
    server.when(is_extractor).always(lambda request: Turn(_found(request, tried)))
    async with extracting(home, server) as app:
        await app.memory.run("fact", {"fact": "The owner's dentist is Dr. Weber"})
        for said in tried:
            server.script("You could visit Paolo in Rome. Your dentist is Dr. Weber.")
            await say(app, said, "main")
        learned = await rows(app, "memory", "SELECT fact FROM facts WHERE source_event_id IS NOT NULL")
        ran = await invocations(app)
    assert learned == []
    asked = [run for run in ran if run["said"] != "Nothing to remember"]
    assert len(asked) == len(tried) - 1, "the joke is not worth a call"
    assert all(run["refused"] for run in asked), "and each run says what was refused"


async def test_what_the_turn_before_said_is_not_written_again_from_the_next(
    home: Home, server: ModelServer
) -> None:
    nurse, nights = "Petra works as a nurse at the LKH hospital", "Petra works nights this week"
    async with extracting(home, server) as app:
        await talk(
            app,
            server,
            ("Petra works as a nurse at the LKH hospital.", "Noted.", extracted(("Petra", nurse))),
            (
                "She works nights this week.",
                "Noted.",
                extracted(("Petra", nurse), ("Petra", f"{nurse}."), ("Petra", nights)),
            ),
        )
        learned = await rows(app, "memory", _FACTS)
        _, second = await invocations(app)
        asked = [request for request in server.requests if is_extractor(request)]
    assert "<before>" in asked[1].last_user
    roles = [{message["role"] for message in request.json["messages"]} for request in asked]
    assert roles == [{"system", "user"}] * 2, "the second has no history of the first"
    assert [fact.partition(" (")[0] for fact, *_ in learned] == [nurse, nights]
    assert len(second["refused"]) == 2


async def test_a_turn_that_only_asks_costs_nothing(home: Home, server: ModelServer) -> None:
    async with extracting(home, server) as app:
        await talk(app, server, ("What is the difference between TCP and UDP?", "Order.", None))
        (run,) = await invocations(app)
        used = await rows(app, "runtime", "SELECT count(*) FROM usage WHERE role = 'writer'")
    assert (run["status"], used) == ("done", [(0,)])


async def test_an_answer_that_is_no_json_is_asked_for_once_more(home: Home, server: ModelServer) -> None:
    async with extracting(home, server, wire="anthropic") as app:
        server.script("Noted.")
        server.when(is_extractor).script("Sure! The owner likes green tea.")
        server.when(lambda r: "Answer again" in r.last_user).script(
            "Here:\n```json\n" + extracted(("owner", "The owner likes green tea")) + "\n```"
        )
        await say(app, "I like green tea.", "main")
        learned = await rows(app, "memory", _FACTS)
        used = await rows(app, "runtime", "SELECT count(*) FROM usage WHERE role = 'writer'")
    assert learned == [("The owner likes green tea", "self_disclosed", 1.0)]
    assert used == [(2,)]


async def test_a_typical_turn_costs_one_call_of_at_most_twelve_hundred_tokens(
    home: Home, server: ModelServer
) -> None:
    said = (
        "By the way, the kick-off with Okapi Bank moved to Thursday at ten, because Jonas is in Malmö until "
        "Wednesday. Could you update the agenda and send it to him?"
    )
    found = extracted(("Okapi Bank", "The kick-off with Okapi Bank moved to Thursday at ten"))
    async with extracting(home, server) as app:
        await talk(app, server, (said, "Done: I updated the agenda.", found))
        used = await rows(
            app, "runtime", "SELECT input_tokens + cache_write_tokens FROM usage WHERE role = 'writer'"
        )
    ((tokens,),) = used
    assert tokens <= 1_200


async def test_what_was_said_of_a_person_is_recalled_and_put_before_who_asks(
    home: Home, server: ModelServer
) -> None:
    said = "My sister Hana, we call her Hani, has her birthday on 4 May. Her mail is hana@example.org."
    found = extracted(
        ("Hana", "Hana's birthday is 4 May"),
        ("Hana", "Hana's mail is hana@example.org"),
        people={"Hana": "Hani"},
    )
    async with extracting(home, server) as app:
        await talk(app, server, (said, "Noted.", found))
        hard = await rows(app, "identity", "SELECT fact_type, value FROM person_facts")
        server.script("On 4 May.", "Done.")
        await say(app, "When is Hana's birthday?", "new")
        await say(app, "Write a mail to Hani: dinner at eight", "newer")
        asked = [request.last_user for request in server.requests if not is_extractor(request)]
    assert hard == [("birthday", "--05-04")]
    assert "Hana's birthday is 4 May" in asked[-2]
    assert "hana@example.org" in asked[-1]


def test_nexus_run_ends_when_the_memory_is_written(home: Home) -> None:
    """And with --no-wait before; the next command that opens the home goes on with it."""
    with ModelServer() as server:
        server.when(is_extractor).always(extracted(("Elin", "Elin lives in Bern")))
        server.always("Noted.")
        env = environment(server, "openai", NEXUS_MODELS_WRITER="test/large")
        done = finish(home, env, "run", "My sister Elin lives in Bern.")
        assert (done.returncode, done.stdout) == (0, "Noted.\n"), done.stderr
        assert "Writing to memory…" in done.stderr
        assert written_rows(home, "memory", "SELECT fact FROM facts") == [("Elin lives in Bern",)]
        later = finish(home, env, "run", "--no-wait", "My brother Tom lives in Basel.")
        assert "Writing to memory" not in later.stderr
