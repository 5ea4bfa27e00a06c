"""The folder of a run: what may go on in it."""

import json
from pathlib import Path

import pytest

from lives import write_life
from nexus import __version__
from nexus.config import Config
from nexus.errors import UsageError
from nexus.evaluation import life as lives
from nexus.evaluation.playback import PlayedSession
from nexus.evaluation.runs import LifeRun, Plan, begin


def test_a_run_keeps_its_date_and_is_for_one_model(tmp_path: Path) -> None:
    plan = Plan(model="test/large")
    begun = begin(tmp_path, plan)
    assert begun.items() >= {"model": "test/large", "judge": "", "version": __version__}.items()
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**begun, "date": "2026-01-01"}))
    assert begin(tmp_path, Plan(model="test/large", judge="test/judge"))["date"] == "2026-01-01"
    with pytest.raises(UsageError, match="holds a run with test/large"):
        begin(tmp_path, Plan(model="test/small"))


async def test_fewer_sessions_than_were_played_are_refused(tmp_path: Path) -> None:
    """The home knows what the later sessions said: it can't be scored as if it didn't."""
    life = lives.read(write_life(tmp_path / "ada"))
    folder = tmp_path / "out"
    folder.mkdir()
    played = [
        PlayedSession(session=name, turns=2, ended_at="", duration_ms=0, memories=[])
        for name in life.sessions
    ]
    (folder / "sessions.jsonl").write_text("".join(f"{json.dumps(each.to_json())}\n" for each in played))
    plan = Plan(model="test/large", sessions=1)
    run = LifeRun(
        life=life.shorten(1, None), folder=folder, config=Config(), plan=plan, told=lambda line: None
    )
    with pytest.raises(UsageError, match="has seen more sessions than these: s2"):
        await run.run()
