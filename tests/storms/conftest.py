from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.fleet import RunningFleet
from contract.postgres import Postgres
from hosts import write_settings
from nexus.testing import ModelServer, Turn


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[RunningFleet]:
    with RunningFleet(tmp_path, postgres, lease_s=5) as made:
        yield made


@pytest.fixture
def settings(tmp_path: Path, server: ModelServer) -> Path:
    server.always(Turn("I see."))
    return write_settings(tmp_path, server)
