"""What Spark's own paths in the bench are made of."""

from importlib.metadata import version
from pathlib import Path

from tidemark.local.jars import named_in

MANIFEST = Path(__file__).resolve().parents[2] / "scripts" / "spark_peer.jars"


def test_the_peer_is_spark_s_own_source_for_the_installed_spark() -> None:
    jars = named_in(MANIFEST.read_text())
    versions = {jar.module: jar.version for jar in jars}
    for module in ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"):
        assert versions[module] == version("pyspark")
    assert all(len(jar.sha256) == 64 for jar in jars)
