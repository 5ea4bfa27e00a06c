"""Rehearse a release: everything up to the upload, from a clean clone, and the list that a person signs off.

scripts/release --rehearse [--no-audit] [--python PYTHON]… [--page FILE]

It clones the last commit, builds there, downloads what the wheel needs into a folder, and from then on
installs from that folder alone: with pip (the least install and the recommended one), `uv tool install` and
pipx, as far as they are there. It uninstalls and installs again over the same home, makes and restores the
sample home, lets a storm pass over the installed program, and runs the recorded session. `--page` keeps the
log.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_MOST_PACKAGES, _MOST_MB = 60, 250
_LINES_KEPT = 12
_SEED = 45
_UNWANTED = ("NEXUS_", "PYTHON", "VIRTUAL_ENV", "PIP_", "UV_", "PIPX_")
_REMEMBER = """
import sys, nexus
with nexus.Memory(sys.argv[1]) as memory:
    memory.add("The key is behind the fuse box")
"""
_IMPORT_EXTRAS = """
import importlib
from nexus import extras
for extra in extras.RECOMMENDED.values():
    for module in extra.modules:
        importlib.import_module(module)
"""
_SIGN_OFF = """\
- [ ] `CHANGELOG.md` names the version and its date, and known limits are in it.
- [ ] The names `nexus-runtime` and `nexus-model-english` belong to us on PyPI, or are still free.
- [ ] PyPI trusts the workflow `release.yml` with the environment `pypi` for both projects.
- [ ] The environment `pypi` of the repository waits for an approval.
- [ ] `tests/migration/homes/{version}.tar.xz`, which `scripts/release` makes, is of this commit's schema.
- [ ] The checks of this commit passed on every version of Python, and on a Mac.
- [ ] `scripts/image` built the image, and talked to it.
- [ ] The channels that the notes promise were tried against the real services, with real accounts.
- [ ] The hashes above are those that the workflow builds.
- [ ] Then: `git tag v{version} {commit} && git push origin v{version}`.
"""


class StepError(Exception):
    """A step failed."""


@dataclass
class Log:
    """What was done, as a page."""

    lines: list[str] = field(default_factory=list[str])

    def heading(self, text: str) -> None:
        self.say(f"\n## {text}\n")

    def say(self, text: str) -> None:
        print(text, flush=True)
        self.lines.append(text)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where the rehearsal happens: a folder that is removed afterwards."""

    folder: Path
    log: Log

    def run(
        self,
        *words: str,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        quiet: bool = False,
    ) -> str:
        """Run a command, log it, and return what it printed."""
        started = time.monotonic()
        done = subprocess.run(
            words,
            cwd=cwd or self.folder,
            env={**_plain_environment(self.folder), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed = [] if quiet and done.returncode == 0 else done.stdout.strip().splitlines()[-_LINES_KEPT:]
        shown = self._hide_paths([f"$ {' '.join(words)}", *printed, f"({time.monotonic() - started:.0f} s)"])
        self.log.say("```text\n" + "\n".join(shown) + "\n```")
        if done.returncode != 0:
            raise StepError(f"`{Path(words[0]).name} {' '.join(words[1:])}` failed")
        return done.stdout

    def _hide_paths(self, lines: Sequence[str]) -> list[str]:
        """Lines as they would be on any machine."""
        beside = f"{Path(sys.executable).parent}{os.sep}"
        hidden = {str(self.folder): "…", sys.executable: "python", beside: "", str(_ROOT): "…/checkout"}
        found: list[str] = []
        for line in lines:
            for path, shown in hidden.items():
                line = line.replace(path, shown)  # noqa: PLW2901 - one after the other
            found.append(line)
        return found


def main() -> int:
    arguments = argparse.ArgumentParser(prog="scripts/release --rehearse")
    arguments.add_argument("--no-audit", action="store_true", help="ask no advisory service")
    arguments.add_argument("--python", action="append", default=[], help="install for this interpreter too")
    arguments.add_argument("--page", type=Path, help="keep the log in this file")
    given = arguments.parse_args()
    log = Log()
    with tempfile.TemporaryDirectory(prefix="nexus-rehearsal-") as name:
        stage = Stage(folder=Path(name), log=log)
        try:
            _rehearse(stage, audit=not given.no_audit, pythons=given.python)
        except StepError as error:
            log.say(f"\n**Not ready: {error}.**")
            return 1
        finally:
            if given.page:
                given.page.write_text(
                    "# A rehearsal of a release\n" + "\n".join(log.lines) + "\n", encoding="utf-8"
                )
    return 0


def _rehearse(stage: Stage, *, audit: bool, pythons: Sequence[str]) -> None:
    clone, dist, files = stage.folder / "clone", stage.folder / "dist", stage.folder / "files"
    log = stage.log

    log.heading("Build from a clean clone")
    stage.run("git", "clone", "--quiet", "--no-hardlinks", str(_ROOT), str(clone))
    commit = stage.run("git", "rev-parse", "HEAD", cwd=clone).strip()
    if subprocess.run(["git", "status", "--porcelain"], cwd=_ROOT, capture_output=True, check=True).stdout:
        log.say("\nThe checkout has changes that are not committed. They are not rehearsed.")
    stage.run(
        *("scripts/release", "--folder", str(dist), *(() if audit else ("--no-audit",))),
        cwd=clone,
        environment={"PYTHONPATH": str(clone / "src")},
    )
    [wheel] = dist.glob("nexus_runtime-*.whl")
    version = wheel.name.split("-")[1]

    log.heading("Download what it needs")
    stage.run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--dest", str(files), "--find-links", str(dist), f"nexus-runtime[recommended]=={version}"),
        quiet=True,
    )
    size = sum(file.stat().st_size for file in files.iterdir())
    log.say(f"{len(list(files.iterdir()))} files, {size / 1e6:.0f} MB. Everything after this is offline.")

    log.heading("Install with pip")
    least = _install_with_pip(stage, sys.executable, files, "least", f"nexus-runtime=={version}")
    packages, megabytes = _measure(least)
    log.say(f"The least install: {packages} packages, {megabytes:.0f} MB.")
    if packages > _MOST_PACKAGES or megabytes > _MOST_MB:
        raise StepError(f"the least install is larger than {_MOST_PACKAGES} packages and {_MOST_MB} MB")
    _use(stage, least, "least")
    wanted = f"nexus-runtime[recommended]=={version}"
    recommended = _install_with_pip(stage, sys.executable, files, "recommended", wanted)
    packages, megabytes = _measure(recommended)
    log.say(f"The recommended install: {packages} packages, {megabytes:.0f} MB.")
    stage.run(str(recommended / "bin" / "python"), "-c", _IMPORT_EXTRAS)
    home = _use(stage, recommended, "recommended")

    log.heading("Uninstall, and install again over the same home")
    python = str(recommended / "bin" / "python")
    stage.run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "nexus-runtime")
    _pip_install(stage, python, files, wanted)
    printed = stage.run(
        str(recommended / "bin" / "nexus"), "--home", str(home), "recall", "where is the key?"
    )
    if "fuse box" not in printed:
        raise StepError("the home does not remember what it held before")

    log.heading("The sample home, made and restored by the installed program")
    sample, unpacked = stage.folder / f"{version}.tar.xz", stage.folder / "sample"
    stage.run(python, "scripts/sample_home.py", str(sample), cwd=clone)
    shutil.unpack_archive(sample, unpacked)
    nexus = str(recommended / "bin" / "nexus")
    restored = str(stage.folder / "home-sample")
    stage.run(nexus, "--home", restored, "restore", str(unpacked))
    if "York" not in stage.run(nexus, "--home", restored, "recall", "where does Nora live?"):
        raise StepError("the sample home does not remember where Nora lives")

    log.heading("A storm over the installed program")
    # The program is the one beside this interpreter; the storm's own modules are found in the folder.
    size = ("--messages", "30", "--faults", "4")
    stage.run(python, "-m", "contract.storm", "--seed", str(_SEED), *size, cwd=clone / "tests")

    for each in pythons:
        log.heading(f"Install for {each}")
        stage.run(each, "--version")
        own = stage.folder / f"files-{Path(each).name}"
        stage.run(
            *(each, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--dest", str(own), "--find-links", str(dist), wanted),
            quiet=True,
        )
        _use(stage, _install_with_pip(stage, each, own, f"pip-{Path(each).name}", wanted), Path(each).name)

    _install_with_tools(stage, files, wanted)

    log.heading("The recorded session")
    stage.run(
        *(sys.executable, "scripts/record_session.py", "--check", "--from", str(files)),
        cwd=clone,
    )

    log.heading("To sign off")
    log.say((dist / "SHA256SUMS").read_text(encoding="utf-8").replace("\n", "  \n"))
    log.say(_SIGN_OFF.format(version=version, commit=commit[:12]))


def _plain_environment(folder: Path) -> dict[str, str]:
    """The environment of somebody who has nothing of Nexus yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_UNWANTED)}
    # Where packages come from, and where they are kept, is this machine's matter.
    kept |= {
        name: value
        for name, value in os.environ.items()
        if name in {"PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_CACHE_DIR"}
    }
    beside = str(Path(sys.executable).parent)
    return {
        **kept,
        "PATH": f"{beside}{os.pathsep}{kept['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }


def _install_with_pip(stage: Stage, python: str, files: Path, name: str, requirement: str) -> Path:
    venv = stage.folder / name
    stage.run(python, "-m", "venv", str(venv))
    _pip_install(stage, str(venv / "bin" / "python"), files, requirement)
    stage.run(str(venv / "bin" / "python"), "-m", "pip", "check")
    return venv


def _pip_install(stage: Stage, python: str, files: Path, requirement: str) -> None:
    stage.run(
        *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-index", "--find-links", str(files), requirement),
    )


def _measure(venv: Path) -> tuple[int, float]:
    """The packages of an environment, and the megabytes (2^20 bytes) that they take on the disk.

    pip, with which the environment came, is no part of Nexus.
    """
    [packages] = venv.glob("lib/python*/site-packages")
    came_with_it = re.compile(r"^(pip|setuptools|pkg_resources|_distutils_hack|distutils-precedence)\b")
    held = [each for each in packages.iterdir() if not came_with_it.match(each.name)]
    files = {
        (status.st_dev, status.st_ino): status.st_blocks * 512
        for each in held
        for file in (each, *each.rglob("*"))
        if (status := file.lstat())
    }
    return sum(each.suffix == ".dist-info" for each in held), sum(files.values()) / 2**20


def _use(stage: Stage, venv: Path, name: str) -> Path:
    """Make a home with an installed program, remember something, and find it."""
    nexus, home = str(venv / "bin" / "nexus"), stage.folder / f"home-{name}"
    stage.run(nexus, "--version")
    stage.run(nexus, "--home", str(home), "init", "--yes", "--provider", "none", "--no-mcp", quiet=True)
    stage.run(str(venv / "bin" / "python"), "-c", _REMEMBER, str(home))
    if "fuse box" not in stage.run(nexus, "--home", str(home), "recall", "where is the key?"):
        raise StepError(f"the {name} install finds nothing")
    found = json.loads(stage.run(nexus, "--home", str(home), "doctor", "--json", quiet=True))
    if errors := [each for each in found["findings"] if each["level"] == "error"]:
        raise StepError(f"doctor finds {errors[0]['message']}")
    return home


def _install_with_tools(stage: Stage, files: Path, requirement: str) -> None:
    """Install with the tools for programs, each in folders of its own."""
    for tool, words, name in (
        ("uv", ("tool", "install", "--offline", "--no-index", "--find-links", str(files)), "uv"),
        ("pipx", ("install", f"--pip-args=--no-index --find-links {files}"), "pipx"),
    ):
        if shutil.which(tool) is None:
            stage.log.say(f"\n{tool} is not on this machine: not tried.")
            continue
        stage.log.heading(f"Install with {tool}")
        folder = stage.folder / name
        folders = {
            "UV_TOOL_DIR": str(folder),
            "UV_TOOL_BIN_DIR": str(folder / "bin"),
            "PIPX_HOME": str(folder),
            "PIPX_BIN_DIR": str(folder / "bin"),
            "PIPX_DEFAULT_PYTHON": sys.executable,
        }
        stage.run(tool, *words, "--python", sys.executable, requirement, environment=folders, quiet=True)
        venv = folder / "venvs" / "nexus-runtime" if tool == "pipx" else folder / "nexus-runtime"
        _use(stage, venv, name)


if __name__ == "__main__":
    sys.exit(main())
