"""A match of recall in short, as agents and other programs read it: the same over MCP and in scripts."""

from dataclasses import asdict
from typing import Any

from nexus.memory.recall.item import Match


def describe_match(match: Match) -> dict[str, Any]:
    """Describe a match under the names of its item, for JSON; what is empty is left out."""
    item, reasons = match.item, match.reasons
    described = {
        "kind": item.kind,
        "id": item.id,
        "strength": match.strength,
        "probability": round(match.probability, 3),
        "text": item.text,
        "at": item.at,
        "speaker": item.speaker,
        "thread_id": item.thread_id,
        "source_event_id": item.source_event_id,
        "entity_ids": list(item.entity_ids),
        "confidence": item.confidence,
        "note": item.note,
        "stale_since": item.stale_since,
        "replaced_by": asdict(item.replaced_by) if item.replaced_by else None,
        "found_by": sorted(reasons.arms),
        "matched_words": list(reasons.matched_words),
        "matched_names": list(reasons.matched_names),
        "neighbour_of": reasons.neighbour_of,
        "caused_by": [asdict(link) for link in item.caused_by],
        "leads_to": [asdict(link) for link in item.leads_to],
    }
    return {name: value for name, value in described.items() if value not in (None, [], "")}
