"""A storm for each database, with a seed of the day; long ones are run by hand, see `contract.storm`."""

import faulthandler
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.postgres import Postgres, binary
from contract.storm.storm import Weather, rage, seed_of_the_day

_OLDER = "ca54f2d2085868db39cb8546db9539d41211242a"
"""Of November 2026: the storm begins with it, and the home is upgraded in the middle."""


@pytest.fixture(params=["sqlite", "postgres"])
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


def older_sources(folder: Path) -> str:
    """The sources of an older version, out of the history; empty where that isn't here."""
    folder.mkdir()
    root = Path(__file__).parents[2]
    found = subprocess.run(["git", "-C", root, "archive", _OLDER, "src"], capture_output=True, check=False)
    if found.returncode:
        return ""
    subprocess.run(["tar", "-x", "-C", folder], input=found.stdout, check=True)
    return str(folder / "src")


def test_nothing_is_lost_in_a_storm(
    server: Postgres | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A storm on a slow machine outlasts the ten minutes after which a test counts as hung.
    faulthandler.cancel_dump_traceback_later()
    weather = Weather(
        seed=seed_of_the_day(),
        database="sqlite" if server is None else "postgres",
        messages=100,
        faults=12,
        sessions=8,
        older=older_sources(tmp_path / "older"),
        # On a quiet machine it takes less than four minutes.
        limit_s=1800,
    )
    report = rage(weather, tmp_path, server)
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201 - the seed, and what struck
    assert report.problems == [], str(report)
    assert report.accepted == weather.messages
    assert report.struck.total() == weather.faults
