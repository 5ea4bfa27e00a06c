"""A second process that serves a home, until it is told to stop."""

import asyncio
import signal
import sys
from pathlib import Path

from nexus import config
from nexus.app import App
from nexus.home import Home


async def serve(home: Home) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with App(home, config.load(home.config_file)):
        await stopped.wait()


asyncio.run(serve(Home(Path(sys.argv[1]))))
