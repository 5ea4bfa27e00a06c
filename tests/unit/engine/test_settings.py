"""Settings that would break a promise are refused."""

from pathlib import Path

import pytest

from nexus.config import EngineConfig
from nexus.engine import Lane, Settings
from nexus.errors import ConfigError
from nexus.home import Home


def test_lanes_that_could_starve_a_more_urgent_one_are_refused() -> None:
    lanes = (Lane(name="chat", limit=4, priority=0), Lane(name="background", limit=8, priority=9))
    with pytest.raises(ConfigError, match="starve"):
        Settings(database=Path("x"), lanes=lanes, host_limit=8)


def test_two_lanes_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError):
        Settings(database=Path("x"), lanes=(Lane(name="a", limit=1), Lane(name="a", limit=1)))


def test_an_unknown_lane_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(database=Path("x")).lane("chatt")
    assert "chat" in caught.value.hint


def test_a_home_keeps_its_work_beside_its_ledgers_unless_a_url_is_given() -> None:
    home = Home(Path("/somewhere"))
    assert Settings.of_home(home, EngineConfig()).database == home.data / "engine.db"
    shared = Settings.of_home(home, EngineConfig(database="postgresql://host/db"))
    assert shared.is_postgres


def test_the_shipped_lanes_leave_room_for_chat() -> None:
    settings = Settings(database=Path("x"))
    others = sum(lane.limit for lane in settings.lanes if lane.name != "chat")
    assert others < settings.host_limit
