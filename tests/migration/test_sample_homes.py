"""The sample home of each release, with a run and its worker under way, becomes a home of today."""

import subprocess
import sys
import tarfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from apps import app_on
from contents import execute
from memory_writers import rows
from migration import later_release
from migration.test_replay import structure
from nexus.errors import SchemaError
from nexus.home import LEDGERS, Home
from nexus.ledgers import backup, health, migrate
from nexus.ledgers.connection import refuse_unknown
from nexus.testing import ModelServer, Turn

_ROOT = Path(__file__).parents[2]
_KEPT = {file.name.removesuffix(".tar.xz"): file for file in Path(__file__).parent.glob("homes/*.tar.xz")}
_TODAY = "today"
_UNENDED = "SELECT id FROM executions WHERE status IN ('queued', 'running')"
_LANES = "SELECT DISTINCT lane, status, error FROM executions ORDER BY lane"


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `scripts/release` would keep of this program."""
    file = tmp_path_factory.mktemp("made") / "today.tar.xz"
    made = [sys.executable, str(_ROOT / "scripts" / "sample_home.py"), str(file)]
    subprocess.run(made, check=True, stdin=subprocess.DEVNULL)
    return file


@pytest.mark.parametrize("release", [_TODAY, *sorted(_KEPT)])
async def test_a_sample_home_is_upgraded_and_its_runs_end(
    release: str, today: Path, tmp_path: Path, server: ModelServer
) -> None:
    home = Home(tmp_path / "home")
    with tarfile.open(_KEPT.get(release, today)) as archive:
        archive.extractall(tmp_path / "copy", filter="data")
    backup.restore(tmp_path / "copy", home, trust=True)
    server.always(lambda request: Turn("Done."))

    # A home of today goes to a later release; one of an earlier release comes here.
    with later_release.installed() if release == _TODAY else nullcontext():
        async with app_on(home, server) as app:
            while unended := await rows(app, "runtime", _UNENDED):
                await app.queue.run(unended[0][0]).result()
            ended = await rows(app, "runtime", _LANES)
            calls = await rows(app, "agents", "SELECT tool_name, status FROM agent_tool_calls")
        for name in LEDGERS:
            migrate.build(tmp_path / f"{name}.db", name)
            new, found = structure(tmp_path / f"{name}.db"), structure(home.ledger(name))
            assert {object_: found.get(object_) for object_ in new} == new
            assert list(health.inspect(home.ledger(name), name)) == []

    assert ended == [("chat", "done", None), ("workers", "done", None)]
    assert calls == [("agent_send", "done")], "a call that was made is not made again"
    if release == _TODAY:
        with pytest.raises(SchemaError, match="The runtime ledger has schema"):
            refuse_unknown(home.data)
        assert execute(home, "memory", "SELECT count(*) FROM facts") >= 2
