"""What is true now comes first: taught in one conversation, with and without a model, and in the demo."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from acceptance.program import nexus
from memory_writers import extracting, is_extractor, quiet
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.memory.recall.item import Query
from nexus.memory.writing import Provenance
from nexus.testing import ModelRequest, ModelServer

OWNER = Provenance(actor="person:mona", kind="owner")
# Whom or what it is about, the old value, the new one as it is said, and what is asked afterwards.
CHANGES = [
    ("Tyler", "Tyler works at Google", "Tyler works at Anthropic now", "where does Tyler work?"),
    (
        "Clara",
        "Clara lives in Aarhus with her son Leo",
        "Clara lives in Rotterdam now",
        "where does Clara live?",
    ),
    (
        "the launch",
        "The launch is on March 15",
        "The launch has been moved to April 2",
        "when is the launch?",
    ),
    (
        "Jonas",
        "Jonas works at Kestrel",
        "Jonas has left Kestrel and works at Tidewater",
        "where does Jonas work?",
    ),
    (
        "the Tidal Room",
        "The Tidal Room opens on 14 June",
        "The opening of the Tidal Room moved to 28 June",
        "when does the Tidal Room open?",
    ),
]
TYPES = {"the Tidal Room": "Project"}


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was told everything within a second, by `remember`, and what replaced what by nobody."""
    path = Path(tmp_path_factory.mktemp("true-now")) / "home"
    assert nexus(path, "init").returncode == 0

    async def teach() -> None:
        async with Ledgers(Home(path), LedgersConfig()) as opened:
            memory = Memory(opened)
            known = ("Tyler", "the Tidal Room")
            for about in known:
                await memory.run("entity", {"name": about, "type": TYPES.get(about, "Person")}, OWNER)
            for told in (1, 2):
                for change in CHANGES:
                    # Of the others nobody says whom or what it is about.
                    about = {"about": change[0]} if change[0] in known else {}
                    await memory.add({"fact": change[told], **about}, OWNER)

    asyncio.run(teach())
    return path


def test_without_a_model_the_current_value_comes_first_and_the_old_one_is_labeled(taught: Path) -> None:
    for _, old, new, question in CHANGES:
        shown = nexus(taught, "recall", question, "--limit", "2")
        assert shown.returncode == 0, shown.stderr
        told = " ".join(shown.stdout.split())
        assert 0 < told.index(f"] {new}") < told.index(f"] {old} Until "), shown.stdout
        assert f"now: {new}".casefold() in told.casefold(), shown.stdout


def test_the_past_is_asked_about_and_both_are_true_on_a_persons_word(taught: Path) -> None:
    before = " ".join(nexus(taught, "recall", "where did Tyler work before?", "--limit", "2").stdout.split())
    assert before.index("Tyler works at Google") < before.index("] Tyler works at Anthropic now")
    facts = json.loads(nexus(taught, "memory", "facts", "--json").stdout)
    old = next(fact for fact in facts if fact["fact"] == "Tyler works at Google")
    assert old["replaced_by"]["how"] == "changed"
    kept = nexus(taught, "memory", "keep-both", old["id"])
    assert kept.returncode == 0, kept.stderr
    after = nexus(taught, "recall", "where does Tyler work?", "--limit", "2").stdout
    assert "Until" not in after, after


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("true-now-demo")) / "home"
    assert nexus(path, "demo").returncode == 0
    return path


@pytest.mark.parametrize(
    ("question", "now", "before"),
    [
        ("where does Clara live?", "Clara lives in Rotterdam now", "Clara lives in Aarhus"),
        ("where does Jonas work?", "Jonas works at Tidewater", "Jonas works at Kestrel"),
        ("when does the Tidal Room open?", "The opening of the Tidal Room moved", "The Tidal Room opens on"),
    ],
)
def test_the_demo_says_what_is_true_now(month: Path, question: str, now: str, before: str) -> None:
    told = " ".join(nexus(month, "recall", question, "--limit", "2").stdout.split())
    assert told.index(f"[fact] {now}") < told.index(f"[fact] {before}"), told
    assert f"now: {now}" in told, "the old value is labeled"


async def test_the_writer_is_shown_what_is_known_and_says_what_it_replaces(home: Home) -> None:
    """In one conversation: what was, and then each change; the script reads the notes as a model would."""

    def extract(request: ModelRequest) -> str:
        said = request.last_user
        facts = list[dict[str, object]]()
        for about, old, new, _ in CHANGES:
            number = re.search(rf"^(N\d+) \([\d-]+\) .*{re.escape(old)}", said, re.MULTILINE)
            if number is not None and new in said:
                facts.append(
                    {"message": 1, "about": about, "fact": new, "replaces": number[1], "how": "changed"}
                )
            elif number is None and old in said:
                facts.append({"message": 1, "about": about, "fact": old})
        people = [{"name": fact["about"], "also_called": ""} for fact in facts]
        return json.dumps({"people": people, "facts": facts})

    with ModelServer() as server:
        server.when(is_extractor).always(extract)
        server.always("Noted.")
        async with extracting(home, server) as app:
            for told in (1, 2):
                await (await app.send(". ".join(change[told] for change in CHANGES) + ".")).result()
                await quiet(app)
            await app.embedding.catch_up(60)
            for _, old, new, question in CHANGES:
                query = Query(text=question, kinds=frozenset({"fact"}), deadline_ms=30_000)
                first, second = (await app.recall(query)).results[:2]
                assert (first.item.text, second.item.text) == (new, old)
                assert second.item.replaced_by is not None
                assert second.item.replaced_by.how == "changed"
                assert "the writer says so" in second.item.replaced_by.signals
