"""The how-to's example runs as it is printed, with the fixture that it asks for."""

import json
import re
import subprocess
import sys
from pathlib import Path

from nexus.testing.model_server.script import Script, load

PAGE = Path(__file__).parents[3] / "docs/how-to/test-with-the-model-server.md"


def test_the_example_passes_as_printed(tmp_path: Path) -> None:
    files = re.findall(r'```python title="(.*?)"\n(.*?)```', PAGE.read_text("utf-8"), re.DOTALL)
    for name, text in files:
        (tmp_path / name).write_text(text, "utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:asyncio", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


def test_the_printed_script_can_be_loaded() -> None:
    printed = re.search(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert printed is not None
    script = Script()
    load(json.loads(printed[1]), script)
    assert len(script.remaining()) == 5
