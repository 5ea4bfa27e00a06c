"""Whatever is added, imported, copied, backed up, forgotten and restored: receipts tell the truth about it.

NEXUS_LONG=1 runs two hundred lives.
"""

import asyncio
import base64
import random
import shutil
import string
from pathlib import Path

import apsw
import pytest

from long_form import times
from new_homes import new_home
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, backup, forgetting
from nexus.ledgers.forgetting import Report, Target
from unit.ledgers.forgetting.scene import Scene

_LIVES = times(2, long=200)
_STEPS = times(3, long=25)
_IN_LEDGERS = ("indexes", "free_pages", "wal")


def forms(word: str) -> list[bytes]:
    """A word as bytes: as it is, as UTF-16, and as base64 wherever it begins."""
    found = [word.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")]
    for raw in (word.encode(), word.encode("utf-16-le")):
        for before in range(3):
            # Whole groups of three bytes only, which no neighbor changes.
            groups = raw[(3 - before) % 3 :]
            found.append(base64.b64encode(groups[: len(groups) // 3 * 3]))
    return found


def holding(root: Path, word: str) -> set[str]:
    """The files below a folder that hold a word in any form."""
    sought = forms(word)
    found: set[str] = set()
    for path in root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            lower = data.lower()
            if any(form in data or form in lower for form in sought):
                found.add(str(path.relative_to(root)))
    return found


class Life:
    """A home with its backups and copies, and which words were forgotten."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.home = new_home(folder / "home-0")
        self.count = 0
        # What can be forgotten: the target's kind and id, and the words that go with it.
        self.there: dict[tuple[str, str], set[str]] = {}
        self.forgotten: dict[str, Report] = {}
        self.places: list[tuple[Path, set[str], dict[tuple[str, str], set[str]]]] = []
        self.restored = 0

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count}"

    def word(self) -> str:
        return "".join(self.chance.choices(string.ascii_lowercase, k=12))

    async def add(self, scene: Scene) -> None:
        if not await scene.left("embeddings.embedding_models"):
            await scene.put("embeddings.embedding_models", id="m", dimensions=2)
        event, fact, thread = self.name("evt"), self.name("fact"), self.name("thr")
        said, known = self.word(), self.word()
        await scene.put("events.threads", id=thread, channel="c", title=f"About {said}")
        await scene.event(event, f"They said {said} to me.", thread_id=thread)
        await scene.fact(fact, f"It is known that {known} is so.", source_event_id=event)
        await scene.put(
            "embeddings.embeddings",
            target_type="fact",
            target_id=fact,
            model_id="m",
            vector=b"\0" * 8,
            source_text_hash="",
        )
        await scene.observation(self.name("obs"), fact, content=f"Surely {known}, as was said.")
        self.there["fact", fact] = {known}
        self.there["thread", thread] = {said, known}

    async def import_(self, scene: Scene) -> None:
        import_id, words = self.name("imp"), [self.word() for _ in range(3)]
        ids = [self.name("evt") for _ in words]
        for id_, word in zip(ids, words, strict=True):
            encoded = base64.b64encode(f"a letter about {word} and more".encode()).decode()
            await scene.event(id_, f"{word.title()} was written.", metadata_json=f'{{"raw": "{encoded}"}}')
        seqs = await scene.left("events.events", "seq")
        await scene.put(
            "events.imports",
            id=import_id,
            source="mbox",
            location="/mail",
            fingerprint="f",
            options_json="{}",
        )
        first = max(seqs) - len(ids) + 1
        await scene.put("events.import_ranges", import_id=import_id, first_seq=first, last_seq=max(seqs))
        self.there["import", import_id] = set(words)

    async def forget(self, scene: Scene) -> None:
        if not self.there:
            return
        kind, id_ = self.chance.choice(sorted(self.there))
        target = await scene.find(lambda connection: _target(connection, kind, id_))
        report = await forgetting.forget(scene.ledgers, target, actor="test")
        assert report is not None
        words = self.there.pop((kind, id_))
        for other in [
            key for key, held in self.there.items() if held <= words or (kind == "thread" and held & words)
        ]:
            del self.there[other]
        if kind == "fact":
            self.there = {key: held - words for key, held in self.there.items()}
        self.forgotten.update(dict.fromkeys(words, report))

    def back_up(self) -> None:
        place = self.folder / self.name("backup")
        backup.make(self.home, place)
        self.places.append((place, set(self.forgotten), {key: set(held) for key, held in self.there.items()}))

    def copy(self) -> None:
        place = self.folder / self.name("copy")
        shutil.copytree(self.home.root, place)
        self.places.append((place, set(self.forgotten), {}))

    def restore(self) -> None:
        backups = [each for each in self.places if (each[0] / "manifest.json").is_file()]
        if not backups:
            return
        place, known, there = self.chance.choice(backups)
        elsewhere = self.chance.random() < 0.3
        home = Home(self.folder / self.name("home")) if elsewhere else self.home
        receipts = self.home.root if elsewhere else None
        done = backup.restore(place, home, replace=True, trust=True, receipts=receipts)
        self.home = home
        self.restored += 1
        # Everything that the backup held and that was forgotten since is named.
        again = {
            self.forgotten[word].forget_id for word in set(self.forgotten) - known if holding(place, word)
        }
        assert {each.forget_id for each in done.returned} == again
        assert all(each.is_removed and each.rows for each in done.returned)
        self.there = {
            key: held - set(self.forgotten) for key, held in there.items() if held - set(self.forgotten)
        }

    def check(self) -> None:
        for word, report in self.forgotten.items():
            places = report.receipt.places
            assert all(places[name].status == "clean" for name in _IN_LEDGERS), places
            # The message that a fact came from stays; it says it in other words.
            assert places["rows"].status == ("kept" if report.target.kind == "fact" else "clean")
            assert places["rows"].counts["left"] == places["rows"].counts["texts_kept"] == 0
            assert places["files"].status == "clean"
            assert holding(self.home.root, word) == set()
        for report in {id(each): each for each in self.forgotten.values()}.values():
            file = forgetting.Folder.of(self.home).file(report.forget_id)
            assert forgetting.verify(self.home, file).places[0].found.is_clean
            words = [word for word, each in self.forgotten.items() if each is report]
            for place, _, _ in self.places:
                (found,) = forgetting.verify(self.home, file, place=place).places
                assert found.found.is_clean == (not any(holding(place, word) for word in words))


def _target(connection: apsw.Connection, kind: str, id_: str) -> Target:
    resolve = {"fact": forgetting.fact, "thread": forgetting.thread, "import": forgetting.import_}[kind]
    return resolve(connection, id_)


@pytest.mark.parametrize("seed", range(_LIVES))
def test_a_receipt_is_true_whatever_happens(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    steps = ["add", "import", "add", "backup", "forget", "restore"]
    weights = {"add": 3, "import": 2, "copy": 1, "backup": 2, "forget": 3, "restore": 2}
    steps += life.chance.choices(list(weights), list(weights.values()), k=_STEPS)
    for step in [*steps, "restore"]:
        if step in {"add", "import", "forget"}:
            asyncio.run(_within(life, step))
        else:
            {"backup": life.back_up, "copy": life.copy, "restore": life.restore}[step]()
        if step in {"forget", "restore"}:
            life.check()
    assert life.forgotten
    assert life.restored


async def _within(life: Life, step: str) -> None:
    async with Ledgers(life.home, LedgersConfig()) as ledgers:
        scene = Scene(ledgers)
        await {"add": life.add, "import": life.import_, "forget": life.forget}[step](scene)
