"""How much memory the program takes, part by part, and what an installation weighs.

    python bench/footprint.py [--write]           resident memory, each part in a process of its own
    python bench/footprint.py --installed FOLDER  the packages of a site-packages folder, the largest first

Pages of files (libraries) count as resident too; the kernel shares them between processes.
"""

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from report import machine, write_section
from start import made

from nexus.testing import ModelServer, echo

_SOURCE = Path(__file__).parents[1] / "src"
_SETTLED_S = 20

_FOUND = "from nexus.memory.embedding import *; files = find(MODELS[DEFAULT_MODEL]); "
_OPEN = _FOUND + "encoder = load(files); "
_PROGRAM = "import nexus.app, nexus.gateway"
_LIBRARY = ", nexus.broker.agent.loop, pydantic_ai.models.anthropic"
_TEXTS = "['The tomatoes behind the house. ' * 12 + str(n) for n in range(64)]"
_PARTS = {
    "Python": "",
    "numpy": "import numpy",
    "the engine: DBOS and SQLAlchemy": "import nexus.engine.interior as interior; interior._dbos()",
    "the program before its first run": _PROGRAM,
    "… and the agent library with a client": _PROGRAM
    + ", nexus.broker.agent.loop, pydantic_ai.models.anthropic",
    "onnxruntime": "import onnxruntime",
    "the embedder's tokenizer": _FOUND
    + "from nexus.memory.embedding.embedder import tokenizer; tokenizer(files)",
    "the embedder": _OPEN,
    "… after a question": _OPEN + "encoder.embed_queries(['Where are the tomatoes?'])",
    "… after 64 texts": _OPEN
    + "encoder.embed(['The tomatoes behind the house. ' * 12 + str(n) for n in range(64)])",
}
_TELL = """
import re
text = open("/proc/self/status").read()
print(*[re.search(name + r":\\s+(\\d+)", text).group(1) for name in ("VmRSS", "RssAnon", "RssFile", "VmHWM")])
"""


def measured(code: str) -> list[float]:
    """MiB in all, of its own, of files, and at the highest, after some code."""
    told = subprocess.run(
        [sys.executable, "-c", code + "\n" + _TELL], capture_output=True, check=True, text=True
    )
    return [int(kib) / 1024 for kib in told.stdout.split()]


def served(source: Path) -> list[str]:
    """A line for each moment of a served home: ready, settled, after a turn and a recall."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as name, ModelServer() as server:
        server.always(echo)
        program = made(source, Path(name) / "home", server)
        process = program.start("up", "--json", "--port", "0")
        try:
            assert process.stdout is not None
            process.stdout.readline()
            lines.append(_line("`nexus up`, ready", process.pid))
            time.sleep(_SETTLED_S)
            lines.append(_line(f"`nexus up`, {_SETTLED_S} s later", process.pid))
            program.took("run", "Say hello")
            program.took("recall", "tomatoes")
            time.sleep(_SETTLED_S / 2)
            lines.append(_line("`nexus up`, after a turn and a recall", process.pid))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
    return lines


def _line(name: str, pid: int) -> str:
    told = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = [re.search(rf"{each}:\s+(\d+)", told) for each in ("VmRSS", "RssAnon", "RssFile", "VmHWM")]
    return f"| {name} | " + " | ".join(f"{int(each[1]) / 1024:.0f} MiB" for each in found if each) + " |"


def weights(folder: Path) -> Counter[str]:
    """Bytes of each package of an installation."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found[path.relative_to(folder).parts[0]] += path.stat().st_size
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--installed", type=Path)
    parser.add_argument("--source", type=Path, default=_SOURCE, help="another source folder to serve with")
    parser.add_argument("--served", action="store_true", help="only the served home")
    given = parser.parse_args()
    if given.installed:
        found = weights(given.installed)
        print(f"{sum(found.values()) / 1e6:.0f} MB in {len(found)} folders")
        for name, size in found.most_common(40):
            print(f"{size / 1e6:7.1f} MB  {name}")
        return
    lines = ["| a fresh process with | resident | its own | of files | highest |", "|---|---|---|---|---|"]
    for name, code in () if given.served else _PARTS.items():
        lines.append(f"| {name} | " + " | ".join(f"{mib:.0f} MiB" for mib in measured(code)) + " |")
    lines += served(given.source)
    text = f"## Memory by part\n\n`python bench/footprint.py`. {machine()}\n\n" + "\n".join(lines) + "\n"
    print(text)
    if given.write:
        write_section("footprint", text)


if __name__ == "__main__":
    main()
