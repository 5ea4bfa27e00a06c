"""The files for three hosts: checked by the schemas of their tools, and against what the program knows."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate  # pyright: ignore[reportMissingTypeStubs]
import promql_parser
import pytest
import yaml

from acceptance.program import NEXUS
from nexus.gateway.listener import PORT

_ROOT = Path(__file__).parents[2]
_FLEET = _ROOT / "deploy" / "fleet"
_DURATION = re.compile(r"([0-9]+(s|m|h|d))+")


def load(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((_FLEET / name).read_text(encoding="utf-8")))


def known_options() -> set[str]:
    shown = subprocess.run([str(NEXUS), "host", "serve", "--help"], capture_output=True, text=True).stdout
    return set(re.findall(r"--[a-z-]+", shown))


def assert_known(words: list[str]) -> None:
    assert words[:3] == ["nexus", "host", "serve"]
    given = {word.partition("=")[0] for word in words[3:]}
    assert given <= known_options()
    assert given >= {"--copies", "--name", "--internal-url", "--scrape-token-file"}
    assert f"--port={PORT}" in words


def schema_says(file: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("check-jsonschema")
    asked = [str(program), "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(asked, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("file", [_ROOT / "deploy/compose.yaml", _FLEET / "compose.yaml"])
def test_the_schema_of_compose_takes_the_file(file: Path, tmp_path: Path) -> None:
    done = schema_says(file)
    assert done.returncode == 0, done.stdout
    broken = tmp_path / "compose.yaml"
    broken.write_text(file.read_text(encoding="utf-8").replace("restart: unless", "restarts: unless"))
    assert schema_says(broken).returncode != 0


def test_the_compose_file_starts_three_hosts_that_reach_each_other() -> None:
    (document,) = load("compose.yaml")
    services = document["services"]
    hosts = {name: each for name, each in services.items() if name.startswith("host-")}
    assert len(hosts) == 3
    for name, host in hosts.items():
        words = [*host["entrypoint"], *host["command"]]
        assert_known(words)
        assert f"--name={name}" in words
        assert f"--internal-url=http://{name}:{PORT}" in words
        assert f"{name}:/srv/nexus" in host["volumes"], "no two hosts share a folder"
        assert (_FLEET / host["build"]["context"] / host["build"]["dockerfile"]).is_file()
        assert (_ROOT / host["build"]["args"]["LOCK"]).is_file()
        assert set(host["depends_on"]) <= set(services)
    for service in services.values():
        for volume in service["volumes"]:
            place = volume.partition(":")[0]
            assert (_FLEET / place).is_file() if place.startswith("./") else place in document["volumes"]
        assert set(service.get("secrets", ())) <= set(document["secrets"])
        assert ":" in service["image"] or "build" in service


def test_the_proxy_and_prometheus_know_every_host() -> None:
    hosts = {f"host-{number}:{PORT}" for number in (1, 2, 3)}
    proxy = (_FLEET / "Caddyfile").read_text(encoding="utf-8")
    assert set(re.findall(r"host-[0-9]:[0-9]+", proxy)) == hosts
    (settings,) = load("prometheus.yaml")
    (job,) = settings["scrape_configs"]
    assert set(job["static_configs"][0]["targets"]) == hosts
    assert all((_FLEET / file).is_file() for file in settings["rule_files"])


def test_the_schema_of_kubernetes_takes_every_manifest() -> None:
    documents = load("kubernetes.yaml")
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    broken = next(each for each in documents if each["kind"] == "StatefulSet")
    broken["spec"]["replica"] = broken["spec"].pop("replicas")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


def test_the_manifests_name_each_other_rightly() -> None:
    documents = load("kubernetes.yaml")
    by_kind: dict[str, dict[str, dict[str, Any]]] = {}
    for each in documents:
        by_kind.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
        assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == "nexus"
    services, sets = by_kind["Service"], by_kind["StatefulSet"]
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in sets.values()]
    assert all(each["spec"]["selector"] in labels for each in services.values())
    for each in sets.values():
        assert each["spec"]["serviceName"] in services
        assert each["spec"]["selector"]["matchLabels"] == each["spec"]["template"]["metadata"]["labels"]
        for container in each["spec"]["template"]["spec"]["containers"]:
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            volumes = each["spec"]["template"]["spec"].get("volumes", [])
            claims = [claim["metadata"]["name"] for claim in each["spec"]["volumeClaimTemplates"]]
            assert mounted == {*claims, *(volume["name"] for volume in volumes)}
    hosts = sets["nexus-host"]["spec"]
    assert hosts["replicas"] == 3
    (container,) = hosts["template"]["spec"]["containers"]
    assert_known([*container["command"], *container["args"]])
    variables = {each["name"] for each in container["env"]}
    assert set(re.findall(r"\$\(([A-Z_]+)\)", " ".join(container["args"]))) <= variables
    for rule in by_kind["Ingress"]["nexus"]["spec"]["rules"]:
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        assert backend["port"]["name"] in {
            port["name"] for port in services[backend["name"]]["spec"]["ports"]
        }


def test_every_alert_is_promql_and_says_what_is_wrong() -> None:
    (document,) = load("alerts.yaml")
    assert set(document) == {"groups"}
    names: list[str] = []
    for group in document["groups"]:
        assert set(group) <= {"name", "interval", "rules"}
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert promql_parser.parse(rule["expr"]) is not None
            assert _DURATION.fullmatch(rule.get("for", "1m"))
            assert rule["labels"]["severity"] in {"warning", "critical"}
            assert rule["annotations"]["summary"].endswith(".")
            names.append(rule["alert"])
    assert len(set(names)) == len(names)
    page = (_ROOT / "docs/how-to/run-as-a-service.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []
