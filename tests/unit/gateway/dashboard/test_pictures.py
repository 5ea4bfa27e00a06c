"""Pictures: a waterfall, bars over days, an entity's company."""

import apsw
import pytest

from nexus.gateway.dashboard import plots
from nexus.gateway.dashboard.pages.entities import draw_neighbours
from nexus.gateway.dashboard.pages.requests import WIDTH, lay_out
from nexus.gateway.views.usage import Spent, Usage
from nexus.ledgers import sql
from nexus.ledgers.runtime import trace
from nexus.ledgers.runtime.trace import Node
from nexus.memory.views.entities import Neighbour
from nexus.runs import Totals
from unit.ledgers.runtime.lineage import ROOT, Lineage


@pytest.fixture
def node() -> Node:
    connection = apsw.Connection(":memory:")
    connection.execute(sql.text("runtime", "schema.sql"))
    Lineage(connection).write()
    found = trace.load(connection, ROOT)
    for each in found.walk():
        # What is not a span was ended by the clock of the test.
        each.duration_ms = each.duration_ms if each.kind == "span" else 6_000.0
    return found


def test_a_row_lies_where_its_step_lay_and_tells_the_sum_of_what_is_below(node: Node) -> None:
    rows, rest = lay_out(node)
    assert rest is None
    by_id = {row.node.id: row for row in rows}
    assert by_id[ROOT].depth == 0
    assert by_id[ROOT].total.calls == 4
    assert by_id["spn_1"].left < by_id["spn_4"].left
    assert by_id["spn_3"].depth == by_id["exe_2"].depth + 1
    assert all(row.left >= 0 and row.left + row.width <= WIDTH + 0.1 for row in rows)


def test_a_long_trace_comes_in_parts(node: Node) -> None:
    step = Node(kind="span", id="s", name="s", status="ok", started_at=node.started_at, duration_ms=1.0)
    node.children += [step] * 500
    first, rest = lay_out(node)
    assert rest == len(first)
    second, _ = lay_out(node, len(first))
    assert second[0].node.id == "s"


def test_the_bars_of_a_day_stand_on_each_other() -> None:
    cheap = Totals(calls=1, input_tokens=10, cost_microusd=1_000)
    dear = Totals(calls=1, input_tokens=10, cost_microusd=3_000)
    usage = Usage(
        days=(Spent(name="2026-05-01", total=Totals()), Spent(name="2026-05-02", total=cheap + dear)),
        models=(Spent(name="dear", total=dear), Spent(name="cheap", total=cheap)),
        automations=(),
        by_day_and_model={"2026-05-02": {"cheap": cheap, "dear": dear}},
        total=cheap + dear,
    )
    plot = plots.stack_bars(usage)
    assert plot is not None
    lower, upper = plot.blocks
    assert (lower.colour, upper.colour) == (0, 1)
    assert lower.y + lower.height == pytest.approx(plot.baseline)
    assert upper.y + upper.height == pytest.approx(lower.y)
    assert [bar.share for bar in plots.make_bars(usage.models)] == [100.0, 33.3]


def test_a_year_has_a_bar_for_each_week() -> None:
    cheap = Totals(calls=1, input_tokens=10, cost_microusd=1_000)
    names = [f"day {number:03}" for number in range(364)]
    year = Usage(
        days=tuple(Spent(name=name, total=cheap) for name in names),
        models=(Spent(name="m", total=cheap),),
        automations=(),
        by_day_and_model={name: {"m": cheap} for name in names},
        total=cheap,
    )
    plot = plots.stack_bars(year)
    assert plot is not None
    assert len(plot.blocks) == 52
    assert plot.blocks[0].title == "day 000 m: $0.0070, 70 tokens"


def test_the_places_on_the_axis_have_as_many_digits_as_each_other() -> None:
    spent = Totals(calls=1, input_tokens=10, cost_microusd=170_000)
    usage = Usage(
        days=(Spent(name="2026-05-01", total=spent),),
        models=(Spent(name="m", total=spent),),
        automations=(),
        by_day_and_model={"2026-05-01": {"m": spent}},
        total=spent,
    )
    plot = plots.stack_bars(usage)
    assert plot is not None
    assert [label.text for label in plot.grid] == ["$0", "$0.05", "$0.10", "$0.15", "$0.20"]


def test_where_nothing_was_spent_there_is_no_plot() -> None:
    nothing = Usage(
        days=(Spent(name="2026-05-01", total=Totals()),),
        models=(),
        automations=(),
        by_day_and_model={},
        total=Totals(),
    )
    assert plots.stack_bars(nothing) is None


@pytest.mark.parametrize("count", [1, 5, 16])
def test_neighbours_are_drawn_inside_of_the_picture(count: int) -> None:
    company = [Neighbour(entity_id=f"e{n}", name=f"Name {n}", facts=n + 1, episodes=0) for n in range(count)]
    picture = draw_neighbours("Tom", company)
    assert picture is not None
    assert all(0 < spot.x < picture.width and 0 < spot.y < picture.height for spot in picture.spots)
    heights = [(spot.anchor, spot.y) for spot in picture.spots]
    assert len(set(heights)) == len(heights), "labels would lie on each other"
    assert draw_neighbours("Tom", []) is None
