"""A short storm for each database; long ones are run by hand, see `contract.storm`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.postgres import Postgres, binary
from contract.storm.storm import Weather, rage


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Postgres | None]:
    """A Postgres of its own, because it is stopped; or none."""
    if request.param == "sqlite":
        yield None
        return
    if binary("initdb") is None:
        pytest.skip("there are no Postgres programs on this machine: install postgresql to run this part")
    cluster = Postgres()
    cluster.start()
    yield cluster
    cluster.stop()


# Every kind of fault on SQLite; on Postgres its own going away, and a kill.
@pytest.mark.parametrize(
    ("server", "seed", "faults"), [("sqlite", 17, 4), ("postgres", 26, 2)], indirect=["server"]
)
def test_nothing_is_lost_in_a_storm(server: Postgres | None, seed: int, faults: int, tmp_path: Path) -> None:
    database = "sqlite" if server is None else "postgres"
    weather = Weather(seed=seed, database=database, messages=5 * faults, faults=faults)
    report = rage(weather, tmp_path, server)
    assert report.problems == [], str(report)
    assert report.accepted == weather.messages
