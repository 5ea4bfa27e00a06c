"""Storms of any size, by hand: `PYTHONPATH=tests python -m contract.storm --messages 2000 --faults 100`."""

import argparse
import tempfile
from dataclasses import fields
from pathlib import Path

from contract.postgres import Postgres

from .storm import Weather, rage


def main() -> None:
    parser = argparse.ArgumentParser(description="Let a storm pass over a new home, and say what it left.")
    for field in fields(Weather):
        default = None if field.name == "seed" else field.default
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=field.type, default=default, required=default is None
        )
    weather = Weather(**vars(parser.parse_args()))
    postgres = Postgres() if weather.database == "postgres" else None
    if postgres is not None:
        postgres.start()
    folder = Path(tempfile.mkdtemp(prefix="nexus-storm-"))
    try:
        report = rage(weather, folder, postgres, loud=True)
    finally:
        if postgres is not None:
            postgres.stop()
    print(report)  # noqa: T201
    raise SystemExit(bool(report.problems))


main()
