"""B19: what a Spark elsewhere than in the driver's process is given, and what it is refused."""

import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from tidemark.settings.connections import Connection
from tidemark.spark.cluster import PACKED_PYTHON, SECRET, SECURE, Cluster, zip_project
from tidemark.spark.errors import SparkEnvironmentMissing, SparkSecretMissing

MASTER = "spark://head:7077"


def cluster(master: str = MASTER, password: str | None = "it", **extra: str) -> Cluster:
    return Cluster(Connection("spark_default", "spark", master, password=password, extra=extra))


def test_a_standalone_cluster_is_given_its_secret_and_everything_is_encrypted() -> None:
    """B19."""
    found = cluster().settings(MASTER, {})
    assert found.items() >= (SECURE | {SECRET: "it"}).items()


@pytest.mark.parametrize("master", ["yarn", "k8s://https://here:6443"])
def test_yarn_and_kubernetes_make_their_own_secret(master: str) -> None:
    found = cluster(master, None).settings(master, {})
    assert found.items() >= SECURE.items()
    assert SECRET not in found


@pytest.mark.parametrize("known", [cluster(password=None), Cluster()])
def test_a_standalone_cluster_without_a_secret_is_refused(known: Cluster) -> None:
    with pytest.raises(SparkSecretMissing) as refused:
        known.settings(MASTER, {})
    assert refused.value.master == MASTER


def test_a_cluster_without_authentication_is_asked_for_by_name() -> None:
    found = cluster(password=None).settings(MASTER, {"spark.authenticate": "false"})
    assert found.keys().isdisjoint(SECURE)


def test_what_a_submitter_configured_stands() -> None:
    given = {SECRET: "theirs", "spark.network.crypto.cipher": "AES/CTR/NoPadding"}
    assert cluster().settings(MASTER, given).keys().isdisjoint(given)


@pytest.mark.parametrize(
    ("master", "key"), [(MASTER, "spark.archives"), ("yarn", "spark.yarn.dist.archives")]
)
def test_a_packed_environment_is_handed_over_beside_other_archives(
    master: str, key: str, tmp_path: Path
) -> None:
    packed = tmp_path / "environment.tar.gz"
    packed.touch()
    found = cluster(master, environment=str(packed))
    assert found.settings(master, {key: "other.zip"})[key] == f"other.zip,{packed}#environment"
    assert found.python == PACKED_PYTHON
    packed.unlink()
    with pytest.raises(SparkEnvironmentMissing) as refused:
        found.settings(master, {})
    assert refused.value.path == str(packed)


def test_executors_share_the_installation_unless_the_connection_names_a_python() -> None:
    assert "spark.executorEnv.PYTHONPATH" in cluster().settings(MASTER, {})
    other = cluster(python="/opt/python")
    assert other.python == "/opt/python"
    assert "spark.executorEnv.PYTHONPATH" not in other.settings(MASTER, {})


def test_the_projects_modules_are_imported_from_the_zip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G129: and nothing beside its jobs/ leaves the machine."""
    project = tmp_path / "project"
    for name in ("jobs/inner", "jobs/.venv", "jobs/lib/python3.11", "venv", "config"):
        (project / name).mkdir(parents=True)
        (project / name / "found_in_zip.py").write_text("VALUE = 7\n")
    zipped = zip_project(project, tmp_path)
    monkeypatch.setattr(sys, "path", [str(zipped)])
    invalidate_caches()
    for name in [name for name in sys.modules if name.partition(".")[0] == "jobs"]:
        monkeypatch.delitem(sys.modules, name)
    from jobs.inner import found_in_zip  # type: ignore[import-not-found]

    assert found_in_zip.VALUE == 7
    for beside in (b"venv", b"python3.11", b"config"):
        assert beside not in zipped.read_bytes()
