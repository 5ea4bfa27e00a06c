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
# The old value, the new one as it is said, and what is asked afterwards.
CHANGES = [
    ("Tyler works at Google", "Tyler works at Anthropic now", "where does Tyler work?"),
    ("Clara lives in Aarhus with her son Leo", "Clara lives in Rotterdam now", "where does Clara live?"),
    ("The launch is on March 15", "The launch has been moved to April 2", "when is the launch?"),
]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was told everything within a second, by `remember`, and what replaced what by nobody."""
    path = Path(tmp_path_factory.mktemp("true-now")) / "home"
    assert nexus(path, "init").returncode == 0

    async def teach() -> None:
        async with Ledgers(Home(path), LedgersConfig()) as opened:
            memory = Memory(opened)
            for name, kind in (("Tyler", "Person"), ("Clara", "Person"), ("the launch", "Project")):
                await memory.run("entity", {"name": name, "type": kind}, OWNER)
            for old, new, _ in CHANGES:
                about = "the launch" if "launch" in old else old.split()[0]
                for text in (old, new):
                    await memory.add({"fact": text, "about": about}, OWNER)

    asyncio.run(teach())
    return path


@pytest.mark.parametrize(("old", "new", "question"), CHANGES)
def test_without_a_model_the_current_value_comes_first_and_the_old_one_is_labeled(
    taught: Path, old: str, new: str, question: str
) -> None:
    shown = nexus(taught, "recall", question, "--limit", "2")
    assert shown.returncode == 0, shown.stderr
    told = " ".join(shown.stdout.split())
    assert 0 < told.index(new) < told.index(f"] {old} Until "), shown.stdout
    assert f"now: {new}" in told.casefold() or f"now: {new.casefold()}" in told.casefold()


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
    def extract(request: ModelRequest) -> str:
        number = re.search(r"^(N\d+) \([\d-]+\) .*Google", request.last_user, re.MULTILINE)
        fact = {
            "message": 1,
            "about": "Tyler",
            "fact": "Tyler works at Google" if number is None else "Tyler works at Anthropic",
        }
        if number is not None:
            fact |= {"replaces": number[1], "how": "changed"}
        return json.dumps({"people": [{"name": "Tyler", "also_called": ""}], "facts": [fact]})

    with ModelServer() as server:
        server.when(is_extractor).always(extract)
        server.always("Noted.")
        async with extracting(home, server) as app:
            await (await app.send("My friend Tyler works at Google.")).result()
            await quiet(app)
            await (await app.send("Tyler left them and works at Anthropic these days.")).result()
            await quiet(app)
            await app.embedding.catch_up(60)
            found = await app.recall(
                Query(text="where does Tyler work?", kinds=frozenset({"fact"}), deadline_ms=30_000)
            )
    first, second = found.results[:2]
    assert (first.item.text, second.item.text) == ("Tyler works at Anthropic", "Tyler works at Google")
    assert second.item.replaced_by is not None
    assert second.item.replaced_by.how == "changed"
    assert "the writer says so" in second.item.replaced_by.signals
