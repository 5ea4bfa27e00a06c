"""Which index for many vectors: recall of the true neighbours, time and memory, on real embeddings.

    python bench/vector_index.py CACHE --rows 50000 1000000 [--write]

CACHE holds the homes that bench/retrieval.py filled: their vectors are the rows, and some of them, a
little moved, the queries. Where more rows are asked for than there are, pairs of them are blended. Our
own indexes run beside those of the libraries that are installed (turbovec, faiss). Everything they bring
is scored exactly, as recall does; times are processor times of one thread.
"""

# The libraries that only this measurement needs are not installed for the type check.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import apsw  # noqa: E402  after the variables
import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from report import machine, progress, write_section  # noqa: E402

from nexus.memory.embedding.index import BitIndex, ExactIndex  # noqa: E402

Floats = NDArray[np.float32]
Nearest = Callable[[Floats, int], NDArray[np.int64]]
_LIMIT = 80
_QUERIES = 60
_WIDER = 4


def real(cache: Path) -> Floats:
    """Every vector of the homes in the cache that the most homes share a model of."""
    blobs: dict[str, list[bytes]] = {}
    for file in sorted(cache.glob("**/embeddings.db")):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        for model_id, vector in connection.execute("SELECT model_id, vector FROM embeddings"):
            blobs.setdefault(str(model_id), []).append(bytes(vector))  # type: ignore[arg-type]
        connection.close()
    most = max(blobs.values(), key=len)
    return np.frombuffer(b"".join(most), "<f2").astype(np.float32).reshape(len(most), -1)


def enlarged(vectors: Floats, count: int) -> Floats:
    """So many vectors: the real ones, then blends of two of them."""
    numbers = np.random.default_rng(0)
    parts, have = [vectors[:count]], min(len(vectors), count)
    while have < count:
        size = min(100_000, count - have)
        one, other = (vectors[numbers.integers(len(vectors), size=size)] for _ in range(2))
        share = numbers.uniform(0.1, 0.5, size=(size, 1)).astype(np.float32)
        parts.append(_unit(((1 - share) * one + share * other).astype(np.float32)))
        have += size
    return np.concatenate(parts)


def methods(vectors: Floats) -> Iterator[tuple[str, Callable[[], tuple[Nearest, int]]]]:
    """Each way to search: its name, and what builds it and says how many bytes it takes."""
    rows = np.arange(len(vectors))

    def own(kind: type[ExactIndex] | type[BitIndex]) -> tuple[Nearest, int]:
        index = kind(vectors.shape[1])
        for start in range(0, len(rows), 20_000):
            index.put(rows[start : start + 20_000], vectors[start : start + 20_000])
        return lambda query, limit: index.nearest(query[None], limit)[0][0], index.nbytes

    yield "every number, float32 (ours up to 50,000 rows)", lambda: own(ExactIndex)
    yield "two bits a number (ours above)", lambda: own(BitIndex)
    for bits in (2, 4):
        yield f"turbovec, {bits} bits", lambda bits=bits: _turbovec(vectors, bits)
    yield "faiss, 8-bit scalar", lambda: _faiss(vectors, "SQ8")
    yield "faiss, product quantisation, fast scan", lambda: _faiss(vectors, "PQ96x4fs")


def _turbovec(vectors: Floats, bits: int) -> tuple[Nearest, int]:
    import turbovec

    library: Any = turbovec
    index = library.TurboQuantIndex(vectors.shape[1], bits)
    index.calibrate(vectors[np.random.default_rng(1).integers(len(vectors), size=2048)])
    index.add(vectors)
    index.prepare()
    size = len(vectors) * vectors.shape[1] * bits // 8
    return lambda query, limit: np.asarray(index.search(query[None], _WIDER * limit)[1][0], np.int64), size


def _faiss(vectors: Floats, factory: str) -> tuple[Nearest, int]:
    import faiss

    library: Any = faiss
    library.omp_set_num_threads(1)
    index = library.index_factory(vectors.shape[1], factory, library.METRIC_INNER_PRODUCT)
    index.train(vectors[np.random.default_rng(1).integers(len(vectors), size=20_000)])
    index.add(vectors)
    return (
        lambda query, limit: index.search(query[None], _WIDER * limit)[1][0],
        index.sa_code_size() * len(vectors),
    )


def measured(name: str, build: Callable[[], tuple[Nearest, int]], vectors: Floats, queries: Floats) -> str:
    """One row of the table."""
    progress(f"{len(vectors):,} rows: {name}")
    started = time.process_time()
    try:
        nearest, size = build()
    except ImportError:
        return f"| {len(vectors):,} | {name} | not installed | | | | |"
    built = time.process_time() - started
    spent: list[float] = []
    found: dict[int, list[float]] = {10: [], _LIMIT: []}
    for query in queries:
        started = time.process_time()
        rows = nearest(query, _LIMIT)
        spent.append((time.process_time() - started) * 1000)
        best = rows[np.argsort(-(vectors[rows] @ query))]
        true = np.argsort(-(vectors @ query))
        for depth, shares in found.items():
            shares.append(len(set(true[:depth].tolist()) & set(best[:depth].tolist())) / depth)
    recall = " | ".join(f"{np.mean(shares):.3f}" for shares in found.values())
    p50, p95 = np.percentile(spent, [50, 95])
    cost = f"{p50:.1f} / {p95:.1f} | {built:.1f} s | {size / 1e6:.0f} MB"
    return f"| {len(vectors):,} | {name} | {recall} | {cost} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cache", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    arguments = parser.parse_args()
    vectors = real(arguments.cache)
    numbers = np.random.default_rng(5)
    moved = vectors[numbers.integers(len(vectors), size=_QUERIES)] + 0.04 * numbers.normal(
        size=(_QUERIES, vectors.shape[1])
    )
    queries = _unit(moved.astype(np.float32))
    lines = [
        f"| rows | index | recall@10 | recall@{_LIMIT} | p50 / p95 ms | build | memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for count in arguments.rows:
        larger = enlarged(vectors, count)
        lines += [measured(name, build, larger, queries) for name, build in methods(larger)]
    text = (
        f"## Vector index\n\n`python bench/vector_index.py`: {len(vectors):,} real vectors, beyond that "
        f"blends of two of them; {machine()}\n\n" + "\n".join(lines) + "\n"
    )
    print(text)
    if arguments.write:
        write_section("vector index", text)


def _unit(vectors: Floats) -> Floats:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


if __name__ == "__main__":
    sys.exit(main())
