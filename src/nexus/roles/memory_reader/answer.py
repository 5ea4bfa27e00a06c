"""The reader's answer: sections with lines, as its role asks for them, and nothing else."""

import re

SECTIONS = ("Entities", "Relationship History", "Recent Episodes", "Facts")
_NOTHING = "nothing relevant"
_BLOCK = re.compile(r"<memory_context>(.*?)</memory_context>", re.DOTALL)
_HEADING = re.compile(r"^##\s+(.+)$")
_LINE = re.compile(r"^\s*-\s+\S")
_MOST_CHARACTERS = 8_000


def sections(answer: str) -> dict[str, list[str]]:
    """The lines of each section; nothing where it found nothing or answered in another form."""
    block = _BLOCK.search(answer)
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (block.group(1) if block else answer).splitlines():
        headed = _HEADING.match(line.strip())
        if headed:
            heading = headed.group(1).strip()
        elif _LINE.match(line) and heading.startswith(SECTIONS):
            found.setdefault(heading, []).append(line.rstrip())
    return found


def memories(answer: str) -> str:
    """What is put before the worker's task; empty where there is nothing."""
    if answer.strip().casefold().strip(" .`") == _NOTHING:
        return ""
    told = [f"## {heading}\n" + "\n".join(lines) for heading, lines in sections(answer).items()]
    return "\n\n".join(told)[:_MOST_CHARACTERS]
