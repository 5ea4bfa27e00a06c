"""Which conversations hold the answer: threads in the order of what their best turns promise."""

import numpy as np

from nexus.memory.recall.pool import Floats, Pool, Whole


def rank(
    pool: Pool, table: dict[str, Floats], rows: Whole, scores: Floats, weights: dict[str, float]
) -> tuple[tuple[str, float], ...]:
    """Every thread that has a candidate, best first, with its score."""
    named: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        thread_id = pool.items[int(row)].thread_id
        if thread_id is not None:
            named.setdefault(thread_id, []).append(position)
    values = {
        thread_id: _score(features(positions, rows, table, scores), weights)
        for thread_id, positions in named.items()
    }
    return tuple(sorted(values.items(), key=lambda pair: -pair[1]))


def features(positions: list[int], rows: Whole, table: dict[str, Floats], scores: Floats) -> dict[str, float]:
    """What a thread's candidates say of it."""
    own = np.sort(scores[positions])[::-1]
    first = rows[positions[0]]
    return {
        "best": float(own[0]),
        "best3": float(own[:3].mean()),
        "best5": float(own[:5].mean()),
        "cover": float(table["thread_cover"][first]),
        "gist": float(table["thread_gist"][first]),
        "bare": float(table["bare"][rows[positions]].sum()),
        "exchange": float(np.sort(table["exchange"][rows[positions]])[::-1][:3].mean()),
    }


def _score(values: dict[str, float], weights: dict[str, float]) -> float:
    return sum(weight * values[name] for name, weight in weights.items())
