"""Manifests of Kubernetes: valid by the published schemas, restricted, and with valid command lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from accelbench.__main__ import main
from accelbench.execution.cluster import find_cluster
from tests.conftest import ROOT
from tests.containers.conftest import run

FOLDER = ROOT / "containers" / "kubernetes"
VERSION = "1.33"
NO_SCHEMA = {"Kustomization", "JobSet"}
"""Kinds that are not part of Kubernetes itself."""


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return found


JOB_SET = manifest("ranks-jobset.yaml")["spec"]["replicatedJobs"][0]["template"]
MANIFESTS = {path.name: manifest(path.name) for path in FOLDER.glob("*.yaml")}
MANIFESTS["job of ranks-jobset.yaml"] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "ranks"},
    **JOB_SET,
}
PODS = {
    name: each["spec"]["template"]["spec"] for name, each in MANIFESTS.items() if each["kind"] in ("Job", "DaemonSet")
}


@pytest.mark.parametrize("name", sorted(name for name, each in MANIFESTS.items() if each["kind"] not in NO_SCHEMA))
def test_a_manifest_is_valid_by_the_schema(name: str) -> None:
    kubernetes_validate.validate(MANIFESTS[name], VERSION, strict=True)


def test_an_unknown_field_is_invalid() -> None:
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**MANIFESTS["results.yaml"], "size": 1}, VERSION, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_satisfies_the_restricted_security_standard(name: str) -> None:
    pod = PODS[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"]
        assert not security["allowPrivilegeEscalation"]


def test_the_command_lines_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [PODS[name]["containers"][0]["args"] for name in PODS if MANIFESTS[name]["kind"] == "Job"]
    assert len(commands) == 2
    for command, *words in commands:
        assert command == "accelbench"
        assert main([word.replace("device=gpu", "device=cpu") for word in [*words, "--dry-run"]]) == 0


def test_the_ranks_of_the_job_set_are_one_cluster() -> None:
    (container,) = PODS["job of ranks-jobset.yaml"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    found = find_cluster({**variables, "ACCELBENCH_RANK": "1"})
    assert found is not None
    assert found.size == JOB_SET["spec"]["completions"] == JOB_SET["spec"]["parallelism"]
    job_set = manifest("ranks-jobset.yaml")
    name, rank = job_set["metadata"]["name"], job_set["spec"]["replicatedJobs"][0]["name"]
    assert found.host == f"{name}-{rank}-0-0.{job_set['spec']['network']['subdomain']}"


def test_the_plug_in_of_node_problem_detector_leaves_the_gate_its_time() -> None:
    config = json.loads((FOLDER / "node-problem-detector.json").read_text(encoding="utf-8"))
    (rule,), (condition,) = config["rules"], config["conditions"]
    assert rule["condition"] == condition["type"]
    assert rule["type"] == "permanent"
    assert main([*rule["args"], "--help"]) == 0
    assert 30 < int(rule["timeout"].rstrip("s")) < int(config["pluginConfig"]["timeout"].rstrip("s"))


def test_the_kustomization_has_all_resources() -> None:
    applied = set(MANIFESTS["kustomization.yaml"]["resources"])
    assert applied == {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml", "ranks-jobset.yaml"}


@pytest.mark.needs("kubectl")
def test_kubectl_builds_the_kustomization() -> None:
    built = list(yaml.safe_load_all(run("kubectl", "kustomize", FOLDER).stdout))
    assert {each["kind"] for each in built} == {"Namespace", "PersistentVolumeClaim", "Job", "DaemonSet"}
    for each in built:
        kubernetes_validate.validate(each, VERSION, strict=True)
        assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == "accelbench"
