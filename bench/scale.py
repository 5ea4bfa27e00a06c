"""What one home, one process and one execution cost: the figures that docs/scale.md is computed from.

python bench/scale.py            prints the figures, a few minutes
python bench/scale.py --write    and puts them into RESULTS.md, scale.json and docs/scale.md
python bench/scale.py --quick    smaller numbers and no Postgres, to see that it runs

A turn is a message of the owner and the answer of a model that answers at once, in a process of its own:
what is measured is everything but the model. Postgres is a fresh cluster on this machine.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import homes
import scale_plan
from model_server import model_server
from recall_latency import Speaker, ask, fill
from report import Figure, machine, progress, table, write_section
from scale_plan import Figures
from setting import embedder_from

from nexus.config import LedgersConfig
from nexus.home import LEDGERS, Home
from nexus.ledgers import Ledgers, events
from nexus.memory.embedding import Vectors
from nexus.memory.recall.recall import Recall

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from contract.postgres import Postgres

_WORDS_OF_A_MESSAGE, _BATCH = 20, 1_000
_MODEL = "claude-sonnet-4-5"
_ANSWER = "Yes, that is so, and it will be so tomorrow as well."


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much is measured."""

    rows: int = 20_000
    texts: int = 500
    turns: int = 200
    open_homes: int = 100
    postgres: bool = True


QUICK = Sizes(rows=5_000, texts=20, turns=4, open_homes=3, postgres=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nexus-scale-") as name:
        figures = asyncio.run(_measured(Path(name), QUICK if given.quick else Sizes()))
    about = "`python bench/scale.py`" + (" `--quick`" if given.quick else "")
    text = f"## Scale\n\n{about}: {machine()}\n\n{table(_rows(figures))}"
    print(text)
    print(scale_plan.table(figures))
    if given.write:
        write_section("scale", text)
        scale_plan.keep(figures)


async def _measured(folder: Path, sizes: Sizes) -> Figures:
    progress("rows, vectors and recalls")
    stored = await _stored(folder, sizes)
    progress("homes kept open")
    kept = await asyncio.to_thread(homes.keep_open, homes.make(folder / "many", sizes.open_homes).homes)
    with model_server(folder, {"always": _ANSWER}) as url:
        progress("turns, the engine on SQLite")
        local = await asyncio.to_thread(_worked, folder / "sqlite", url, "", sizes.turns)
        shared: dict[str, Any] = {}
        if sizes.postgres:
            progress("turns, the engine on Postgres")
            shared = await asyncio.to_thread(_on_postgres, folder / "postgres", url, sizes.turns)
    return replace(
        stored,
        **local,
        **{f"postgres_{name}": shared[name] for name in _OF_THE_ENGINE if name in shared},
        bytes_per_open_home=round(kept.memory_bytes / kept.homes),
    )


def _on_postgres(folder: Path, url: str, turns: int) -> dict[str, Any]:
    """The same as `_worked`, with the engine on a cluster of its own."""
    cluster = Postgres()
    cluster.start()
    try:
        return _worked(folder, url, cluster.new_database(), turns)
    finally:
        cluster.stop()


async def _stored(folder: Path, sizes: Sizes) -> Figures:
    """Rows of each kind in one home, and questions to them."""
    home, speaker = _home(folder / "stored"), Speaker(7)
    empty = _sizes(home)
    embedder = embedder_from(None, None)
    async with Ledgers(home, LedgersConfig(synchronous="normal")) as opened:
        for _ in range(0, sizes.rows, _BATCH):
            said = speaker.sentences(_BATCH, _WORDS_OF_A_MESSAGE)
            new = [events.NewEvent(channel="bench", content=text, sender="ada") for text in said]
            await opened.events.write(events.append, new)
        vectors = Vectors(opened.embeddings, embedder)
        await fill(opened, vectors, speaker, sizes.rows)
        recall = Recall(opened, vectors)
        questions = [f"When did {text}?" for text in speaker.sentences(max(10, sizes.texts // 10), 6)]
        await ask(recall, questions[:5], "low")
        spent = await ask(recall, questions, "low")
        texts = speaker.sentences(sizes.texts, 14)
        busy = time.process_time()
        await asyncio.to_thread(embedder.embed, texts)
        embedding_ms = (time.process_time() - busy) * 1000 / len(texts)
    full = _sizes(home)
    grown = {name: (full[name] - empty[name]) / sizes.rows for name in LEDGERS}
    return Figures(
        measured=machine(),
        bytes_per_empty_home=sum(empty.values()),
        bytes_per_event=round(grown["events"]),
        bytes_per_fact=round(grown["memory"]),
        bytes_per_embedding=round(grown["embeddings"]),
        cpu_ms_per_embedding=round(embedding_ms, 2),
        facts_of_recall=sizes.rows,
        cpu_ms_per_recall=round(statistics.median(spent.processor_ms), 1),
    )


_OF_THE_ENGINE = ("cpu_ms_per_turn", "engine_rows_per_turn", "engine_bytes_per_turn", "connections")


def _worked(folder: Path, url: str, database: str, turns: int) -> dict[str, Any]:
    """What a process of its own tells after so many turns in a home of its own."""
    home = _home(folder)
    home.config_file.write_text(
        f'[engine]\ndatabase = "{database}"\n[models]\nmanager = "anthropic/{_MODEL}"\nwriter = "none"\n'
        f'[providers.anthropic]\nkind = "anthropic"\nbase_url = "{url}"\napi_key = "env:SCALE_KEY"\n'
    )
    words = [sys.executable, str(Path(__file__).with_name("scale_worker.py")), str(home.root), str(turns)]
    environment = {"SCALE_KEY": "k", "PATH": ""}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _home(root: Path) -> Home:
    home = Home(root)
    home.create()
    return home


def _sizes(home: Home) -> dict[str, int]:
    """Bytes of each ledger that nobody has open."""
    return {name: home.ledger(name).stat().st_size for name in LEDGERS}


def _rows(figures: Figures) -> list[Figure]:
    return [Figure(meaning, f"{getattr(figures, name):,}") for name, meaning in scale_plan.MEANING.items()]


if __name__ == "__main__":
    main()
