"""Starts the real `nexus` program the way a person does."""

import subprocess
import sys
from pathlib import Path

NEXUS = Path(sys.executable).with_name("nexus")


def nexus(home: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run one command on a home and return what it printed and its exit code."""
    command = [str(NEXUS), "--home", str(home), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
