"""The files for running it as a service: no engine runs them here, so their words are checked."""

import configparser
import json
import shutil
import subprocess
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from dockerfile_parse import DockerfileParser  # pyright: ignore[reportMissingTypeStubs]

from acceptance.program import NEXUS
from nexus import config
from nexus.gateway.listener import PORT

_ROOT = Path(__file__).parents[2]
_DEPLOY = _ROOT / "deploy"


def _instructions() -> list[tuple[str, str]]:
    parser: Any = DockerfileParser
    found = parser(fileobj=BytesIO((_DEPLOY / "Containerfile").read_bytes())).structure
    return [(each["instruction"], each["value"]) for each in found if each["instruction"] != "COMMENT"]


def test_the_container_holds_what_is_there_and_runs_as_nobody_special() -> None:
    instructions = _instructions()
    kinds = [kind for kind, _ in instructions]
    assert kinds[:2] == ["ARG", "FROM"]
    base = instructions[0][1].removeprefix("BASE=")
    assert kinds[-1] == "CMD"
    for kind, value in instructions:
        if kind == "COPY" and not value.startswith("--from="):
            *sources, _ = value.split()
            assert all((_ROOT / source).exists() for source in sources), value
        if kind == "FROM":
            assert value.split()[0] == "${BASE}"
            assert ":" in base, "a base without a version is another one tomorrow"
    values = dict(instructions)
    assert values["USER"] == "nexus"
    assert values["EXPOSE"] == str(PORT)
    assert json.loads(values["CMD"])[:2] == ["sh", "-c"]


def test_what_the_container_runs_is_what_the_program_knows(tmp_path: Path) -> None:
    line = str(json.loads(dict(_instructions())["CMD"])[2])
    assert line == f"nexus init --no-mcp && exec nexus up --host 0.0.0.0 --port {PORT}"
    for command in ("init", "up"):
        shown = subprocess.run([str(NEXUS), command, "--help"], capture_output=True, text=True).stdout
        words = line.partition(f"nexus {command}")[2].partition("&&")[0].split()
        assert all(word in shown for word in words if word.startswith("--"))


def test_the_compose_file_names_volumes_files_and_settings_that_there_are() -> None:
    document: dict[str, Any] = yaml.safe_load((_DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = document["services"]
    assert set(services) == {"nexus", "postgres"}
    for service in services.values():
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in document["volumes"]
    nexus = services["nexus"]
    assert (_DEPLOY / nexus["build"]["context"] / nexus["build"]["dockerfile"]).is_file()
    assert nexus["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert set(nexus["depends_on"]) <= set(services)
    variables = {each.variable for _, _, entries in config.settings() for each in entries}
    assert {name for name in nexus["environment"] if name.startswith("NEXUS_")} <= variables


@pytest.mark.parametrize(
    ("name", "program_path", "command", "scope"),
    [
        ("nexus.service", "%h/.local/bin/nexus", "up", "--user"),
        ("nexus-host.service", "/usr/local/bin/nexus", "host serve --root /srv/nexus", "--system"),
    ],
)
def test_the_unit_is_one_that_systemd_takes(
    tmp_path: Path, name: str, program_path: str, command: str, scope: str
) -> None:
    text = (_DEPLOY / name).read_text(encoding="utf-8")
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.read_string(text)
    assert unit.sections() == ["Unit", "Service", "Install"]
    assert unit["Service"]["ExecStart"] == f"{program_path} {command}"
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd on this machine to ask")
    file = tmp_path / name
    file.write_text(text.replace(program_path, str(NEXUS)), encoding="utf-8")
    done = subprocess.run(
        [program, "verify", scope, "--man=no", str(file)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    about_it = [line for line in done.stderr.splitlines() if "nexus" in line]
    if done.returncode != 0 and not about_it:
        pytest.skip(f"systemd cannot look at units here: {done.stderr}")
    assert (done.returncode, about_it) == (0, [])
