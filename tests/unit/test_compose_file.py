"""docker-compose.yml and .env.example: complete, alike, and nothing in them that would weaken a container."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_settings import BaseSettings
from ruamel.yaml import YAML

from leeway.secret_files import SECRETS
from shared.settings import Settings, Simulation, Timeouts, load_settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = YAML(typ="safe").load(TEXT)
SERVICES: dict[str, dict[str, Any]] = {
    name: {"environment": {}} | service for name, service in COMPOSE["services"].items()
}
OURS = ("ingest", "guard", "agent", "dispatch", "migrate")
SERVERS = ("postgres", "rabbitmq", "prometheus", "postgres-exporter", "grafana")
USED = dict(re.findall(r"(?<!\$)\$\{([A-Z_]+)(?::-([^}]*))?\}", TEXT))  # by name, with the default
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
NAMED = dict(re.findall(r"^(?:# )?([A-Z][A-Z_]*)=(.*)$", EXAMPLE, re.MULTILINE))
OF_COMPOSE = {"LEEWAY_DATABASE_URL", "LEEWAY_AMQP_URL"}  # it names its own servers
OF_THE_IMAGE = {"LEEWAY_HOST", "LEEWAY_PORT", "LEEWAY_METRICS_HOST", "LEEWAY_METRICS_PORT"}
ON_THIS_MACHINE = {"AUTONOMY"}


def variables(settings: type[BaseSettings]) -> set[str]:
    prefix = str(settings.model_config.get("env_prefix", ""))
    return {
        str(field.validation_alias or f"{prefix}{name.upper()}")
        for name, field in settings.model_fields.items()
        if name != "timeouts"
    }


READ = variables(Settings) | variables(Timeouts) | variables(Simulation)
HANDED_ON = {
    name for service in SERVICES.values() for name, value in service["environment"].items() if value is None
}


# .env.example


def test_every_setting_is_in_the_example() -> None:
    assert set(NAMED) >= READ


def test_all_in_the_example_is_read_by_somebody() -> None:
    assert set(NAMED) == READ | set(USED) | HANDED_ON


def test_the_values_of_the_example_are_the_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also as a person takes them over, by taking the # away."""
    monkeypatch.chdir(tmp_path)
    for name in READ:
        monkeypatch.delenv(name, raising=False)
    before = load_settings()
    Path(".env").write_text("\n".join(f"{name}={value}" for name, value in NAMED.items() if name in READ))
    after = load_settings()
    assert after == before
    assert {"slots", "whatsapp_url", "llm"} <= after.model_fields_set  # it was read


def test_compose_has_the_defaults_of_the_example() -> None:
    assert {name: NAMED[name] for name in USED} == USED


# What the services are handed


def test_compose_hands_on_what_env_example_names() -> None:
    """Compose reads .env for itself; its services see only what it hands on."""
    wanted = READ - OF_COMPOSE - OF_THE_IMAGE - ON_THIS_MACHINE
    for service in OURS:
        environment = SERVICES[service]["environment"]
        assert {name for name, value in environment.items() if value is None} == wanted
        assert {name for name, value in environment.items() if value is not None} == OF_COMPOSE


def test_no_password_is_written_down() -> None:
    values = [str(value) for one in SERVICES.values() for value in one["environment"].values()]
    assert not [value for value in values if re.search(r"://[^@/]*:[^@/]*@", value)]
    assert {name for name in HANDED_ON if "PASSWORD" in name} == {
        one.name for one in SECRETS if "PASSWORD" in one.name
    }


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_reads_the_secrets_that_it_needs_and_no_other(service: str) -> None:
    group_of = {one.name: str(one.group) for one in SECRETS}
    needed = {name for name in SERVICES[service]["environment"] if name in group_of}
    if service == "init":
        needed = set(group_of)
    assert set(SERVICES[service].get("group_add", [])) == {group_of[name] for name in needed}


# Containers


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_no_more_rights_than_it_needs(service: str) -> None:
    container = SERVICES[service]
    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert container["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid", "ipc", "devices"} & set(container)
    assert container.get("network_mode", "none") == "none"
    assert not any("docker.sock" in str(volume) for volume in container.get("volumes", []))


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_bounds(service: str) -> None:
    container = SERVICES[service]
    assert container["mem_limit"]
    assert container["pids_limit"] <= 500
    assert set(container["logging"]["options"]) == {"max-size", "max-file"}


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_is_no_root_from_its_first_moment(server: str) -> None:
    assert SERVICES[server]["user"].partition(":")[0] not in ("", "0", "root")


def test_our_image_is_no_root() -> None:
    lines = (ROOT / "ops" / "image" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER 10001:10001"]
    assert not any("user" in SERVICES[service] for service in OURS)
    assert SERVICES["init"]["user"] == "10000:10000"  # else the services own all the secrets


def test_nothing_can_be_reached_from_outside_unless_somebody_says_so() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(re.fullmatch(r"\$\{[A-Z]+_PUBLISH:-127\.0\.0\.1:\d+\}:\d+", port) for port in published)


@pytest.mark.parametrize("service", OURS)
def test_a_service_has_the_time_to_drain(service: str) -> None:
    assert SERVICES[service]["stop_grace_period"] == "${LEEWAY_TIMEOUT_GRACE:-25}s"
    assert SERVICES[service]["init"] is True
    assert Timeouts().drain <= 20


@pytest.mark.parametrize("service", ["ingest", "guard", "agent", "dispatch"])
def test_how_many_processes_there_are_is_kept_where_an_upgrade_finds_it(service: str) -> None:
    """What `--scale` says holds until the next `up`."""
    assert SERVICES[service]["deploy"] == {"replicas": f"${{{service.upper()}_PROCESSES:-1}}"}


def test_the_core_comes_up_without_what_watches_it() -> None:
    watching = {name for name, one in SERVICES.items() if one.get("profiles") == ["observability"]}
    assert watching == {"prometheus", "postgres-exporter", "grafana"}
    for name in set(SERVICES) - watching:
        assert "profiles" not in SERVICES[name]
        assert not set(SERVICES[name].get("depends_on", [])) & watching


def test_every_image_is_named_by_a_variable() -> None:
    for service in SERVICES.values():
        name = re.fullmatch(r"\$\{([A-Z_]+_IMAGE):-[^}]+\}", service["image"])
        assert name, service["image"]
        tag = USED[name[1]].rpartition(":")[2]
        assert tag not in ("", "latest")


# What goes into the image


def test_no_data_or_secret_goes_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "**"
    assert {"**/.*", "**/*.key"} <= set(rules[rules.index("!leeway") :])  # the last rule that fits decides
    assert not [rule for rule in rules if rule.startswith("!.") or rule in ("!tests", "!docs", "!ops")]
