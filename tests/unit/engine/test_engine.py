"""What the engine refuses before anything is recorded."""

from pathlib import Path

import pytest

from nexus.engine import Engine, Settings
from nexus.engine.errors import EngineError


async def test_work_without_a_key_is_refused_because_it_would_never_run(tmp_path: Path) -> None:
    database = tmp_path / "engine.db"
    engine = Engine(Settings(database=database))
    with pytest.raises(EngineError, match="without a key") as caught:
        await engine.start("greet", {}, key="", lane="chat")
    assert "key of its own" in caught.value.hint
    assert not database.exists()
