"""The plan of the invented month."""

from datetime import UTC, datetime, timedelta

from nexus.broker.tools import TOOLS, web
from nexus.demo.month import DAYS, plan

_UNTIL = datetime(2026, 5, 31, 18, tzinfo=UTC)


def test_the_same_seed_gives_the_same_month() -> None:
    assert plan(3, _UNTIL) == plan(3, _UNTIL)


def test_another_seed_tells_the_same_story_with_other_errands() -> None:
    one, other = plan(3, _UNTIL), plan(4, _UNTIL)
    assert one != other
    assert [scene for scene in one if scene.summary] == [scene for scene in other if scene.summary]


def test_scenes_are_in_order_and_within_the_month() -> None:
    moments = [scene.at for scene in plan(3, _UNTIL)]
    assert moments == sorted(moments)
    assert _UNTIL - timedelta(days=DAYS + 1) <= moments[0]
    assert moments[-1] < _UNTIL


def test_the_last_day_is_the_one_on_which_the_month_ends() -> None:
    assert sum(scene.at.date() == _UNTIL.date() for scene in plan(3, _UNTIL)) > 2


def test_dates_are_written_out() -> None:
    told = [text for scene in plan(3, _UNTIL) for _, text in scene.lines]
    assert any("14 June" in text for text in told)
    assert not [text for text in told if "{" in text]


def test_scale_multiplies_everyday_life_and_not_the_story() -> None:
    once, thrice = plan(3, _UNTIL), plan(3, _UNTIL, scale=3)
    errands = [sum(not scene.summary for scene in month) for month in (once, thrice)]
    assert 2.9 < errands[1] / errands[0] < 3.1
    assert len([scene for scene in once if scene.summary]) == len([s for s in thrice if s.summary])


def test_the_agent_of_the_month_uses_tools_that_a_real_home_has() -> None:
    real = {tool.name for tool in TOOLS} | {"recall", *web.NAMES}
    used = {name for scene in plan(7, _UNTIL) for name, _ in scene.work.tools}
    assert used
    assert used <= real
