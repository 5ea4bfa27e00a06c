"""Ask whether a locked dependency has a known vulnerability. Where nobody can be asked, say so and succeed.

`scripts/release` asks strictly: no release is made without an answer.
"""

import importlib.util
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Final

from pip._internal.models.index import PyPI

_ROOT: Final = Path(__file__).parents[1]
# What pip-audit asks, for any package: a mirror need not answer it, or may know no vulnerabilities.
_PROBE: Final = f"{PyPI.pypi_url}/pip/24.0/json"
_PROBE_S: Final = 5
_AUDIT_S: Final = 300


def main() -> int:
    """Return 1 where a vulnerability is known."""
    reason = _unavailable()
    if reason:
        print(f"Skipped: {reason}")
        return 0
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    try:
        asked = [*command, "--requirement", "requirements-hosting.lock"]
        return subprocess.run(asked, cwd=_ROOT, timeout=_AUDIT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"Skipped: the advisory service did not answer within {_AUDIT_S} s")
        return 0


def _unavailable() -> str:
    """Why nobody can be asked; nothing where somebody can."""
    if importlib.util.find_spec("pip_audit") is None:
        return "pip-audit is not installed"
    try:
        with urllib.request.urlopen(_PROBE, timeout=_PROBE_S) as answer:  # noqa: S310 - pip's own constant
            known = json.load(answer)
    except (OSError, ValueError) as error:
        return f"the advisory service cannot be reached ({error})"
    return "" if "vulnerabilities" in known else "this mirror of PyPI knows no advisories"


if __name__ == "__main__":
    sys.exit(main())
