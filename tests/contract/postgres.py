"""A real Postgres for the contract: a fresh cluster in a temporary folder, on a free loopback port."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from ports import free_port

_BINARIES = (
    "/usr/lib/postgresql/15/bin",
    "/usr/lib/postgresql/16/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
)


def binary(name: str) -> str | None:
    """Where a program of Postgres is, if it is anywhere."""
    found = shutil.which(name)
    if found is not None:
        return found
    return next((f"{folder}/{name}" for folder in _BINARIES if Path(folder, name).exists()), None)


class Postgres:
    """One cluster. Its data are gone when it stops."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nexus-pg-"))
        self._port = free_port()
        self._databases = 0

    def start(self) -> None:
        initdb = binary("initdb")
        assert initdb is not None
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self._run(initdb, "-D", f"{self.folder}/data", "-A", "trust", "-U", "nexus", "--no-sync")
        self.resume()

    def resume(self) -> None:
        """Begin to answer, at first or again."""
        pg_ctl = binary("pg_ctl")
        assert pg_ctl is not None
        options = f"-p {self._port} -k {self.folder} -c listen_addresses=127.0.0.1 -c max_connections=200"
        self._run(
            pg_ctl, "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-o", options, "-w", "start"
        )

    def pause(self) -> None:
        """Go away as in a crash, with all that was committed."""
        pg_ctl = binary("pg_ctl")
        assert pg_ctl is not None
        self._run(pg_ctl, "-D", f"{self.folder}/data", "-m", "immediate", "-w", "stop")

    def stop(self) -> None:
        self.pause()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self, template: str = "template1") -> str:
        """The url of a new database; like the template, which nobody may be connected to."""
        self._databases += 1
        name = f"engine_{self._databases}"
        createdb = binary("createdb")
        assert createdb is not None
        self._run(createdb, "-h", "127.0.0.1", "-p", str(self._port), "-U", "nexus", "-T", template, name)
        return f"postgresql://nexus@127.0.0.1:{self._port}/{name}"

    def _run(self, *command: str) -> None:
        """Postgres refuses to run as root, so root runs it as the user that owns the folder."""
        user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )
