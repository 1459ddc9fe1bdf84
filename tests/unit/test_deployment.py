"""Image, compose file and manifest: what they name is there, and the pipeline in them is one."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from penstock.ingest.mysql.config import MySqlConfig
from penstock.pipelines.commands.arguments import parse_with_file
from penstock.pipelines.commands.main import COMMANDS
from penstock.pipelines.commands.run import FLAGS
from penstock.pipelines.config import yaml_file

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return found


def test_the_compose_file_has_one_pipeline_with_its_secret_by_reference() -> None:
    spec = yaml_file.load(DOCKER / "shop.yaml")
    assert isinstance(spec.source, MySqlConfig)
    assert spec.source.password == "${MYSQL_PASSWORD}"
    assert spec.source.hostname in compose()["services"]


def test_each_command_of_the_compose_file_belongs_to_penstock_or_spark() -> None:
    services = compose()["services"]
    assert {"mysql", "kafka", "master", "worker", "pipeline"} <= set(services)
    for service in services.values():
        words = str(service.get("command", "")).split()
        if words[:1] == ["penstock"]:
            assert words[1] in COMMANDS
            parse_with_file("run", FLAGS, words[2:], "")
    for name, service in services.items():
        for needed in service.get("depends_on", {}):
            assert needed in services, name


def test_the_image_copies_and_calls_existing_files() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    assert set(re.findall(r"RUN penstock (\w+)", text)) <= set(COMMANDS)
    assert "USER penstock" in text
    mounted = [mount for service in compose()["services"].values() for mount in service.get("volumes", ())]
    files = [mount.split(":")[0] for mount in mounted if mount.startswith("./")]
    assert files
    assert all((DOCKER / name).is_file() for name in files)


def test_the_manifest_runs_one_driver_that_executors_can_reach() -> None:
    parts = {part["kind"]: part for part in yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text())}
    deployment = parts["Deployment"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate")
    assert deployment["template"]["spec"]["securityContext"] == {"fsGroup": 1000}  # the image's user has no root
    (container,) = deployment["template"]["spec"]["containers"]
    words = container["args"]
    assert words[0] == "penstock"
    path, given = parse_with_file("run", FLAGS, words[2:], "")
    assert path == "/etc/penstock/shop.yaml"
    settings = dict(pair.split("=", 1) for pair in given["spark-conf"])
    secrets = set(re.findall(r"\$\{(\w+)\}", (DOCKER / "shop.yaml").read_text()))
    given_on = {name.rpartition(".")[2]: value for name, value in settings.items() if ".executor.secretKeyRef." in name}
    assert given_on == {name: f"shop-secrets:{name}" for name in secrets}  # executors look them up themselves
    assert {item["name"] for item in container["env"]} == set(re.findall(r"\$\((\w+)\)", " ".join(words)))
    service = parts["Service"]
    assert settings["spark.driver.host"] == service["metadata"]["name"]
    assert int(settings["spark.driver.port"]) in [port["port"] for port in service["spec"]["ports"]]
    assert (
        settings["spark.kubernetes.authenticate.driver.serviceAccountName"]
        == parts["ServiceAccount"]["metadata"]["name"]
    )


def test_the_image_accepts_the_executor_command_of_spark(tmp_path: Path) -> None:
    assert "COPY docker/executor /usr/local/bin/executor" in (DOCKER / "Dockerfile").read_text()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    environment = {
        "JAVA_HOME": str(tmp_path),
        "SPARK_HOME": "/opt/spark",
        "SPARK_JAVA_OPT_0": "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "SPARK_JAVA_OPT_1": "-Dspark.driver.port=7078 ",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@shop-driver:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "shop-exec-1",
    }
    environment = {"PATH": os.environ["PATH"], **environment}
    done = subprocess.run(
        [DOCKER / "executor"], env=environment, capture_output=True, text=True, timeout=280, check=True
    )
    words = done.stdout.splitlines()
    assert words[:2] == [environment["SPARK_JAVA_OPT_0"], environment["SPARK_JAVA_OPT_1"]]
    assert words[4:7] == [
        "-cp",
        "/opt/spark/conf:/opt/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    ]
    assert dict(zip(words[7::2], words[8::2], strict=True))["--podName"] == "shop-exec-1"


def test_workers_of_the_compose_file_use_a_writable_folder() -> None:
    assert "--work-dir /tmp/" in compose()["services"]["worker"]["command"]


def test_hosted_ci_and_hooks_call_existing_targets() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert set(workflow["jobs"]) == {"check", "dependencies", "integration", "nightly"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    called = {words[1] for step in steps if (words := str(step.get("run", "")).split())}
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"check", "test", "chaos"} <= called <= targets
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]  # nothing is downloaded
    tools = {hook["entry"].split()[0] for hook in repositories[0]["hooks"]}
    assert tools == {".venv/bin/ruff", ".venv/bin/mypy"}
