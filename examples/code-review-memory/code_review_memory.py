"""code-review-memory: learns your rules from the reviews that you talk about, and shows them before the next.

Registered twice: after a turn it learns, before a turn it reminds.
"""

import re
from typing import Any

from nexus import Context

RULES = "RULES.md"
LEARNER = "code-review-memory"
MOST_RULES, MOST_NEW, MOST_CHARACTERS = 60, 5, 200
REVIEW = re.compile(
    r"^diff --git |^@@ |\bcode review\b|\breview (?:this|my|the)\b|\bpull request\b",
    re.IGNORECASE | re.MULTILINE,
)
RULE = re.compile(r"[-*] +(?P<rule>\S.*)")


async def run(ctx: Context) -> dict[str, Any] | None:
    if not REVIEW.search(ctx.request.event.content[:20_000]):
        return None
    return await learn(ctx) if ctx.result is not None else remind(ctx)


async def learn(ctx: Context) -> dict[str, Any] | None:
    """Let an agent say which lasting rules the turn holds, and keep those that are new."""
    assert ctx.result is not None
    known = rules(ctx.files.read_file(RULES, ""))
    about = {
        "message": ctx.request.event.content[:20_000],
        "answer": ctx.result.response.content[:20_000],
        "known_rules": "\n".join(known),
    }
    said = await ctx.ask("Which rules are new?", about=about, model=ctx.config.get("model", ""))
    if said.rstrip(".") == "None":
        return None
    heard = rules(said)[:MOST_NEW]
    if not heard:
        return {"flag": f"not a list of rules: {said[:80]!r}"}
    new = [rule for rule in heard if rule.casefold() not in {each.casefold() for each in known}]
    if new:
        # Appended in one write, so that two sessions at once lose nothing.
        with (ctx.files.home / RULES).open("a", encoding="utf-8") as file:
            file.write("".join(f"- {rule}\n" for rule in new))
    return {"log": {"rules_learned": len(new)}}


def remind(ctx: Context) -> dict[str, Any] | None:
    """Put the newest rules before the message, beside what others put there. No model is asked."""
    learner = ctx.files.peers[ctx.config.get("learner", LEARNER)]
    known = rules(learner.read_file(RULES, ""))[-MOST_RULES:]
    if not known:
        return None
    text = "Rules for reviews that the owner stated before:\n" + "\n".join(f"- {rule}" for rule in known)
    before = ctx.request.enrichment.get("memories")
    return {"enrich": {"memories": f"{before}\n\n{text}" if before else text}}


def rules(text: str) -> list[str]:
    """The items of a list, each once and on one line."""
    found = (RULE.fullmatch(line.strip()) for line in text.splitlines())
    return list(dict.fromkeys(each["rule"][:MOST_CHARACTERS] for each in found if each))
