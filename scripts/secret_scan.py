"""Fail if a tracked file holds what looks like a real credential. It needs no network."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

# What each begins with or contains, which is quick to miss in a text, and the whole.
PATTERNS: Final = {
    "private key": (
        ("PRIVATE KEY-----",),
        re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"),
    ),
    "Anthropic key": (("sk-ant-",), re.compile(r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{80,}")),
    "OpenAI key": (
        ("T3BlbkFJ",),
        re.compile(r"\bsk-(?:proj-)?[A-Za-z0-9_-]{20}T3BlbkFJ[A-Za-z0-9_-]{20}"),
    ),
    # The provider's own documents have keys that end so.
    "AWS key": (("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[A-Z2-7]{9}(?!EXAMPLE)[A-Z2-7]{7}\b")),
    "GitHub token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{80,})"),
    ),
    "GitLab token": (("glpat-",), re.compile(r"\bglpat-[A-Za-z0-9_-]{20}\b")),
    "Google key": (("AIza",), re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b")),
    "Slack token": (("xox",), re.compile(r"\bxox[abpr]-[0-9]{10,}-[0-9A-Za-z-]{20,}")),
    "PyPI token": (("pypi-AgEI",), re.compile(r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}")),
}


def found(text: str) -> list[tuple[int, str]]:
    """The line and the kind of everything in a text that looks like a credential."""
    return [
        (text.count("\n", 0, match.start()) + 1, kind)
        for kind, (parts, pattern) in PATTERNS.items()
        if any(part in text for part in parts)
        for match in pattern.finditer(text)
    ]


def main() -> int:
    """Scan every tracked file, and new ones that git would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    count = 0
    for name in filter(None, listed.split("\0")):
        path = Path(name)
        if not path.is_file() or path.is_symlink():
            continue
        for line, kind in found(path.read_text(encoding="utf-8", errors="replace")):
            # The value is not printed: this output is kept in logs.
            print(f"{name}:{line}: looks like a credential: {kind}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
