"""What was spent is added up when it is written: the sums are those of the rows, and stand in for them."""

from dataclasses import replace
from typing import Any

import pytest

from nexus.ledgers import Ledgers, sql
from nexus.ledgers.runtime import usage
from nexus.ledgers.runtime.usage import UsageRow

_ROW = UsageRow(
    id="use_1",
    request_id="req_2",
    root_request_id="req_1",
    role="worker",
    provider="p",
    model="m",
    input_tokens=10,
    cache_read_tokens=100,
    cache_write_tokens=20,
    output_tokens=5,
    cost_microusd=300,
    automation="notes",
)
_ROWS = (
    _ROW,
    replace(_ROW, id="use_2", cost_microusd=None),
    replace(_ROW, id="use_3", root_request_id="req_9", role=None, automation=None),
    replace(_ROW, id="use_4", model="n", output_tokens=7),
    # An answer that had broken off, of which more is known now.
    replace(_ROW, id="use_1", input_tokens=40, cost_microusd=900),
    replace(_ROW, id="use_2", input_tokens=11, cost_microusd=1),
    replace(_ROW, id="use_3", root_request_id="req_9", role=None, automation=None, cost_microusd=None),
)
_OF_ROWS = """count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
sum(output_tokens), coalesce(sum(cost_microusd), 0), count(*) - count(cost_microusd)"""
BY_DAY = f"""SELECT substr(created_at, 1, 10), provider, model, coalesce(role, ''), coalesce(automation, ''),
{_OF_ROWS} FROM usage GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"""
BY_ROOT = f"""SELECT root_request_id, substr(min(created_at), 1, 10), {_OF_ROWS}
FROM usage GROUP BY 1 ORDER BY 1"""


async def _all(ledgers: Ledgers, query: str) -> list[Any]:
    return await ledgers.runtime.read(lambda c: c.execute(query).fetchall())


@pytest.mark.parametrize("count", range(1, len(_ROWS) + 1))
async def test_the_sums_are_those_of_the_rows_also_when_more_becomes_known(
    opened: Ledgers, count: int
) -> None:
    for row in _ROWS[:count]:
        await opened.runtime.write(usage.record, row=row)
    assert await _all(opened, "SELECT * FROM usage_days ORDER BY 1, 2, 3, 4, 5") == await _all(opened, BY_DAY)
    assert await _all(opened, "SELECT * FROM usage_roots ORDER BY 1") == await _all(opened, BY_ROOT)


async def test_a_row_that_is_taken_back_is_not_in_the_sums(opened: Ledgers) -> None:
    def fails(connection: Any) -> None:
        usage.record(connection, _ROW)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await opened.runtime.write(fails)
    assert await _all(opened, "SELECT * FROM usage_days") == []


async def test_a_message_belongs_to_the_day_on_which_its_work_began(opened: Ledgers) -> None:
    insert = (
        "INSERT INTO usage (id, request_id, root_request_id, provider, model, created_at)"
        " VALUES (?1, ?1, 'req_1', 'p', 'm', ?2)"
    )
    for day in ("2026-05-02", "2026-05-01", "2026-05-03"):
        bindings = (day, f"{day}T10:00:00.000Z")
        await opened.runtime.write(sql.run, insert, bindings)
    assert await _all(opened, "SELECT day, calls FROM usage_roots") == [("2026-05-01", 3)]


@pytest.mark.parametrize(
    ("name", "bindings"),
    [
        ("usage_since", 1),
        ("usage_of_automation", 2),
        ("usage_of_roles", 2),
        ("usage_of_root", 1),
        ("usage_of_roots", 1),
        ("usage_by_day_and_model", 1),
        ("usage_by_automation", 1),
        ("usage_by_root", 2),
        ("usage_by_model", 0),
    ],
)
async def test_what_is_asked_often_is_read_from_the_sums(opened: Ledgers, name: str, bindings: int) -> None:
    explained = f"EXPLAIN QUERY PLAN {sql.queries('runtime')[name]}"
    plan = await opened.runtime.read(lambda c: c.execute(explained, ("",) * bindings).fetchall())
    looked_at = " ".join(str(line[3]) for line in plan).split()
    assert "usage" not in looked_at, plan
    assert {"usage_days", "usage_roots", "r"} & set(looked_at), plan
