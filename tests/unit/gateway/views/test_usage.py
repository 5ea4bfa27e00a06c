"""What was spent, by day, model and automation."""

from datetime import UTC, datetime, timedelta

from nexus import clock
from nexus.config import Config
from nexus.gateway.views import usage
from unit.gateway.scene import Scene


async def test_what_was_spent_today_is_told_by_model_and_by_automation(scene: Scene) -> None:
    await scene.lineage()
    spent = await usage.load_usage(scene.ledgers, days=7)
    assert len(spent.days) == 7
    assert spent.days[-1].total == spent.total
    assert [(each.name, each.total.cost_microusd) for each in spent.models] == [("p/m", 1_540)]
    assert [(each.name, each.total.cost_microusd) for each in spent.automations] == [("memory-writer", 40)]


async def test_days_on_which_nothing_was_spent_are_there(scene: Scene) -> None:
    spent = await usage.load_usage(scene.ledgers, days=3, now=lambda: datetime(2026, 3, 1, tzinfo=UTC))
    assert [day.name for day in spent.days] == ["2026-02-27", "2026-02-28", "2026-03-01"]
    assert clock.parse(spent.days[0].name)


async def test_a_report_after_a_long_silence_ends_with_the_last_day_of_usage(scene: Scene) -> None:
    await scene.lineage()
    today = clock.now()
    found = await usage.load_report(scene.ledgers, Config(), days=7, now=lambda: today + timedelta(days=200))
    assert (found.until, found.total.cost_microusd) == (clock.day(today), 1_540)
    assert found.days[-1].total == found.total
    assert found.messages
