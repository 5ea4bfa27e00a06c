"""A model on loopback, in OpenAI's format, as a process of its own: serve.py FILE NAME CONTEXT_TOKENS.

It prints its address once the model is loaded, and ends when its standard input is closed: with the process
that started it, however that ends.
"""

import importlib
import os
import sys
from typing import Any, Final

_BATCH_TOKENS: Final = 64


def main(file: str, name: str, context_tokens: str) -> None:
    library: Any = importlib.import_module("xllamacpp")  # it has no types
    parameters = library.CommonParams()
    parameters.model.path = file
    parameters.model_alias = {name}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = int(context_tokens)
    parameters.n_parallel = 1
    # A request that is canceled, because somebody else needs the model, ends with its batch: on a laptop,
    # the default of 2,048 tokens takes a minute.
    parameters.n_batch = _BATCH_TOKENS
    parameters.n_ubatch = _BATCH_TOKENS
    parameters.use_jinja = True
    # One core is left for the rest of the program.
    threads = max(1, (os.cpu_count() or 2) - 1)
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    # Threads that wait sleep, so that others can use the cores meanwhile.
    parameters.cpuparams.poll = 0
    parameters.cpuparams_batch.poll = 0
    parameters.verbosity = -1
    server = library.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # The library waits for answers under way when it is asked to stop; nobody waits for them any more.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
