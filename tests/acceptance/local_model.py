"""A real, small language model on loopback, in the OpenAI format: `python local_model.py FILE`.

It prints its address when it serves, and runs until its standard input is closed.
"""

import importlib
import sys
from typing import Any

_CONTEXT_TOKENS = 6_144


def main(file: str) -> None:
    library: Any = importlib.import_module("xllamacpp")  # it has no types
    parameters = library.CommonParams()
    parameters.model.path = file
    parameters.model_alias = {"smollm2"}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = _CONTEXT_TOKENS
    parameters.n_parallel = 1
    parameters.use_jinja = True
    # On a busy machine two threads spend their time waiting for each other.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.verbosity = -1
    server = library.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
