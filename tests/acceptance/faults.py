"""What every fault must lead to: two plain lines that say what happened and what to do, and no trace."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptance.agents import PATIENCE_S
from acceptance.program import NEXUS

# Root may read everything; without these two capabilities it may what the modes say, like anybody else.
_LIKE_ANYBODY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.getuid() == 0 else ()


@dataclass(frozen=True)
class Refusal:
    """What a command that failed said."""

    message: str
    hint: str


def refusal(
    home: Path,
    *arguments: str,
    env: dict[str, str] | None = None,
) -> Refusal:
    """Run a command that must fail, and in the way that people can do something about."""
    command = [*_LIKE_ANYBODY, str(NEXUS), "--home", str(home), *arguments]
    done = subprocess.run(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    first, *rest = done.stderr.splitlines()
    assert first.startswith("nexus: "), done.stderr
    *more, hint = rest
    assert hint.startswith("  "), done.stderr
    return Refusal("\n".join([first.removeprefix("nexus: "), *more]), hint.strip())


def found(home: Path, check: str, *options: str) -> list[dict[str, Any]]:
    """What the doctor finds fault with, in one of its checks."""
    findings = json.loads(_doctor(home, "--json", *options).stdout)["findings"]
    return [each for each in findings if each["check"] == check and each["level"] not in {"ok", "off"}]


def mended(home: Path) -> list[str]:
    """What `nexus doctor --fix` says that it did."""
    lines = _doctor(home, "--fix").stdout.splitlines()
    return [line.removeprefix("fixed").strip() for line in lines if line.startswith("fixed")]


def _doctor(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*_LIKE_ANYBODY, str(NEXUS), "--home", str(home), "doctor", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert "Traceback" not in done.stderr, done.stderr
    return done
