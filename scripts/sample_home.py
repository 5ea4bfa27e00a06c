"""Make the sample home that a release keeps: a backup, taken while a run and its worker wait for their model.

    python scripts/sample_home.py FILE.tar.xz

`scripts/release` makes it, and tests/migration upgrades that of every release and lets its runs end.
"""

import asyncio
import sys
import tarfile
import tempfile
from pathlib import Path

from nexus.app import App
from nexus.home import Home
from nexus.ledgers import backup, memory
from nexus.ledgers.memory import NewFact
from nexus.testing import Hold, ModelServer, ToolCall, Turn

_CONFIG = """\
[models]
manager = "test/large"
writer = "none"

[providers.test]
kind = "anthropic"
base_url = "{url}"
max_retries = 0
"""
_TASK = ToolCall("agent_send", {"op": "dispatch", "text": "Find a train to Lyon"})
_LATE = "late"
_PATIENCE_MS = 600_000


async def _make(home: Home, copy: Path, server: ModelServer) -> None:
    gate = server.gate(_LATE)
    async with App.open(home) as app:
        try:
            await (await app.send("The dentist is on May 4, 2026.")).result()
            facts = [NewFact(fact="Nora lives in York"), NewFact(fact="她对花生过敏")]
            await app.ledgers.memory.write(memory.append_facts, facts)
            await app.send("Plan the trip to Lyon")
            # The manager waits after its tool call, and so does the worker.
            await server.until(lambda: gate.waiting > 1, _PATIENCE_MS)
            await asyncio.to_thread(backup.make, home, copy)
        finally:
            gate.open()


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    file = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        server.script("Noted.", Turn("", [_TASK]))
        server.always(Turn("Done.", faults=[Hold(gate=_LATE)]))
        home, copy = Home(Path(folder) / "home"), Path(folder) / "copy"
        home.create()
        home.config_file.write_text(_CONFIG.format(url=server.url), encoding="utf-8")
        asyncio.run(_make(home, copy, server))
        file.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(file, "w:xz") as archive:
            archive.add(copy, arcname=".")
    print(f"{file}: {file.stat().st_size // 1024} KiB")


main()
