"""The parent of Spark's Python workers: it has imported what they need before they fork.

Spark's own daemon imports pyspark out of a zip, which keeps no bytecode, and each worker imports
its module anew: a second of CPU time per worker. Started by Spark as `-m`, see session.py.
"""

import gc
import importlib
import sys

NEEDED = ("pyarrow", "psycopg2", "confluent_kafka", "tidemark.spark.source")
"""What a reader or a writer imports; importing starts no thread and opens no client."""


ALLOCATIONS = 50_000
"""After so many objects a worker looks for cycles; after each 700 it took 3 % of its CPU time."""


def import_needed() -> None:
    """Everything is imported that a worker needs for its first block."""
    for module in NEEDED:
        importlib.import_module(module)
    sys.modules["pyarrow"].array([0])  # for the first one of a list pyarrow imports pandas


def main() -> None:
    """Serve forks to Spark, with the installed pyspark."""
    sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
    from pyspark import daemon

    importlib.import_module(sys.argv[1])
    import_needed()
    gc.freeze()  # Spark collects after each task: 30 ms of looking at what the imports left
    gc.set_threshold(ALLOCATIONS)  # for its children too: each record read is one allocation
    daemon.manager()


if __name__ == "__main__":
    main()
