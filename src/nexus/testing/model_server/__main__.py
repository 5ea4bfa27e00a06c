"""`python -m nexus.testing.model_server`: the model server as a program of its own.

It prints one line of JSON with its address when it serves, and runs until it gets SIGTERM or SIGINT.
"""

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from nexus.errors import NexusError
from nexus.testing.model_server.record import Price
from nexus.testing.model_server.script import echo
from nexus.testing.model_server.server import ModelServer


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal comes."""
    options = _parser().parse_args(arguments)
    # Blocked before the server's thread starts, so that both threads leave the signals to `sigwait`.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        server = _server(options)
    except (NexusError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    with server:
        sys.stdout.write(json.dumps({"url": server.url, "openai_url": server.openai_url}) + "\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


def _server(options: argparse.Namespace) -> ModelServer:
    prices = {model: Price(**price) for model, price in _read(options.prices).items()}
    server = ModelServer(keys=options.key, models=options.model, prices=prices, port=options.port)
    server.load_script(_read(options.script))
    if options.echo:
        server.always(echo)
    return server


def _read(path: Path | None) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"), parse_float=str) if path else {}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nexus.testing.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--script", type=Path, help="a script in JSON")
    parser.add_argument("--prices", type=Path, help="JSON: model → prices for a million tokens")
    parser.add_argument("--key", action="append", default=[], help="accept this key only; may be repeated")
    parser.add_argument("--model", action="append", default=[], help="know this model only; may be repeated")
    parser.add_argument(
        "--echo", action="store_true", help="answer what is not scripted with the user's words"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
