"""Three hosts that can be struck: processes, their network, and the Postgres and the models they share.

As root each host is in a network namespace of its own, and a partition takes its interface down. Otherwise
all hosts are on loopback, and a partition stops the host's process, which to the others looks the same.
"""

import asyncio
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from contract.postgres import Postgres
from nexus.testing import ModelServer

_NEXUS = Path(sys.executable).with_name("nexus")
_NETWORK = f"10.{200 + os.getpid() % 50}.{os.getpid() % 250}"
_BRIDGE = f"nx{os.getpid() % 100_000}"
_PORT = 7807


class Relay(threading.Thread):
    """Lets hosts in other namespaces reach a port of this one's loopback."""

    def __init__(self, address: str, to: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._to = to
        self._ready = threading.Event()
        self.port = 0

    def started(self) -> Self:
        self.start()
        self._ready.wait()
        return self

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._joined, self._address, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await server.serve_forever()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.close()


class Loopback:
    """All hosts on this machine's loopback."""

    name = "one loopback; a partition stops the process (SIGSTOP)"
    is_split = False
    gate = "127.0.0.1"

    def close(self) -> None:
        pass

    def address(self, number: int) -> str:
        return "127.0.0.1"

    def port(self, number: int) -> int:
        return 0

    def prefix(self, number: int) -> list[str]:
        return []

    def cut(self, number: int, host: "HostProcess") -> None:
        host.signal(signal.SIGSTOP)

    def join(self, number: int, host: "HostProcess") -> None:
        host.signal(signal.SIGCONT)


class Namespaces:
    """Each host in a network namespace, joined by a bridge."""

    name = "a network namespace each; a partition takes the interface down"
    is_split = True
    gate = f"{_NETWORK}.1"

    def __init__(self, count: int) -> None:
        self._count = count
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{self.gate}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for number in range(count):
            space, outer, inner = self._space(number), f"{_BRIDGE}-{number}", f"{_BRIDGE}i{number}"
            _ip("netns", "add", space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            _ip("link", "set", outer, "master", _BRIDGE, "up")
            _ip("link", "set", inner, "netns", space)
            _ip("-n", space, "addr", "add", f"{self.address(number)}/24", "dev", inner)
            _ip("-n", space, "link", "set", inner, "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def close(self) -> None:
        for number in range(self._count):
            subprocess.run(["ip", "netns", "del", self._space(number)], check=False)
        subprocess.run(["ip", "link", "del", _BRIDGE], check=False)

    def address(self, number: int) -> str:
        return f"{_NETWORK}.{10 + number}"

    def port(self, number: int) -> int:
        return _PORT

    def prefix(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", self._space(number)]

    def cut(self, number: int, host: "HostProcess") -> None:
        _ip("link", "set", f"{_BRIDGE}-{number}", "down")

    def join(self, number: int, host: "HostProcess") -> None:
        _ip("link", "set", f"{_BRIDGE}-{number}", "up")

    def inside(self, number: int, work: Callable[[], None]) -> threading.Thread:
        """Run something in a host's namespace, on a thread that ends there."""

        def run() -> None:
            with Path("/run/netns", self._space(number)).open("rb") as space:
                if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), 0):
                    raise OSError(ctypes.get_errno(), "setns")
            work()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def _space(self, number: int) -> str:
        return f"{_BRIDGE}-host-{number}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def network(count: int) -> Loopback | Namespaces:
    """Namespaces where this user may have them."""
    try:
        return Namespaces(count)
    except (OSError, subprocess.CalledProcessError):
        return Loopback()


class HostProcess:
    """`nexus host serve --fleet` with a data folder of its own."""

    def __init__(self, world: "World", number: int) -> None:
        self.number = number
        self.name = f"host-{number}"
        self.root = world.folder / self.name
        self._world = world
        self._process: subprocess.Popen[str] | None = None
        self._port = world.network.port(number)

    @property
    def url(self) -> str:
        return f"http://{self._world.network.address(self.number)}:{self._port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        network = self._world.network
        address = network.address(self.number)
        where = ["--address", address, "--port", str(self._port), "--name", self.name]
        command = [*network.prefix(self.number), str(_NEXUS), "host", "serve", "--json", *where]
        command += ["--root", str(self.root), "--copies", f"file://{self._world.folder}/copies"]
        command += ["--lease-s", str(self._world.lease_s)]
        self.root.mkdir(exist_ok=True)
        with (self._world.folder / f"{self.name}.log").open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "NEXUS_FLEET": self._world.fleet_url},
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} did not start: see {self._world.folder}/{self.name}.log")
        self._port = json.loads(line)["port"]

    def signal(self, number: int) -> None:
        """To the host and what it started."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._ended(30)

    def wipe(self) -> None:
        shutil.rmtree(self.root)

    def _ended(self, timeout_s: float) -> None:
        if self._process is not None:
            self._process.communicate(timeout=timeout_s)


class World:
    """Hosts, Postgres and models while the context lasts."""

    def __init__(self, folder: Path, count: int, lease_s: float) -> None:
        self.folder = folder
        self.lease_s = lease_s
        self.network = network(count)
        self.postgres = Postgres()
        self.models = ModelServer()
        self.fleet_url = ""
        """As hosts reach it."""
        self.own_fleet_url = ""
        self.model_url = ""
        self.hosts = [HostProcess(self, number) for number in range(count)]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.callback(self.network.close)
            self.postgres.start()
            opening.callback(self.postgres.stop)
            opening.enter_context(self.models)
            self.own_fleet_url = self.postgres.new_database()
            self.fleet_url, self.model_url = self.own_fleet_url, self.models.url
            if self.network.is_split:
                self.fleet_url = self._relayed(self.own_fleet_url)
                self.model_url = self._relayed(self.models.url)
            for host in self.hosts:
                opening.callback(host.kill)
            with ThreadPoolExecutor(len(self.hosts)) as starting:
                list(starting.map(HostProcess.start, self.hosts))
            self._stack = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def restart_postgres(self, away_s: float) -> None:
        self.postgres.pause()
        time.sleep(away_s)
        self.postgres.resume()

    def _relayed(self, url: str) -> str:
        port = int(url.rpartition(":")[2].partition("/")[0])
        relay = Relay(self.network.gate, port).started()
        return url.replace(f"127.0.0.1:{port}", f"{self.network.gate}:{relay.port}")
