"""The model server of `nexus.testing` in a process of its own, so that its work isn't measured with ours."""

import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def model_server(folder: Path, script: Mapping[str, Any]) -> Generator[str]:
    """The URL of a server that answers by a script, which is kept in a folder of the benchmark's."""
    file = folder / "script.json"
    file.write_text(json.dumps(script))
    words = [sys.executable, "-m", "nexus.testing.model_server", "--script", str(file)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield str(json.loads(server.stdout.readline())["url"])
    finally:
        server.terminate()
        server.wait()
