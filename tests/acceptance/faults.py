"""What every fault must lead to: two plain lines that say what happened and what to do, and no trace."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptance.agents import PATIENCE_S
from acceptance.program import NEXUS, typed

# Root may read everything; without these two capabilities it may what the modes say, like anybody else.
_LIKE_ANYBODY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.getuid() == 0 else ()


@dataclass(frozen=True)
class Refusal:
    """What a command that failed said."""

    message: str
    hint: str


def refusal(home: Path, *arguments: str, env: dict[str, str] | None = None, apart: bool = False) -> Refusal:
    """Run a command that must fail, and in the way that people can do something about."""
    done = _run(home, *arguments, env=env, apart=apart)
    assert done.returncode == 1, done
    first, *rest = done.stderr.splitlines()
    assert first.startswith("nexus: "), done.stderr
    *more, hint = rest
    assert hint.startswith("  "), done.stderr
    return Refusal("\n".join([first.removeprefix("nexus: "), *more]), hint.strip())


def found(home: Path, check: str, *options: str, apart: bool = False) -> list[dict[str, Any]]:
    """What the doctor finds fault with, in one of its checks."""
    findings = json.loads(_run(home, "doctor", "--json", *options, apart=apart).stdout)["findings"]
    return [each for each in findings if each["check"] == check and each["level"] not in {"ok", "off"}]


def mended(home: Path, *, apart: bool = False) -> list[str]:
    """What `nexus doctor --fix` says that it did."""
    lines = _run(home, "doctor", "--fix", apart=apart).stdout.splitlines()
    return [line.removeprefix("fixed").strip() for line in lines if line.startswith("fixed")]


def _run(
    home: Path, *arguments: str, env: dict[str, str] | None = None, apart: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command; `apart`, in a process that may read what anybody may and has its own locks."""
    words = ["--home", str(home), *arguments]
    env = dict(os.environ) if env is None else env
    done = (
        subprocess.run(
            [*_LIKE_ANYBODY, str(NEXUS), *words],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        if apart
        else typed(*words, env=env)
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done
