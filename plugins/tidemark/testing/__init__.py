"""For the tests of your own pipelines: what becomes of records, do DAGs load, do rows fit.

Doors: none; tests import what stands in `__all__`. See docs/testing-pipelines.md.

It needs no Kafka, no warehouse and no ledger.
"""

from tidemark.testing._dags import dag_faults
from tidemark.testing._ddl import ddl_faults
from tidemark.testing._transform import Made, Record, run_transform

__all__ = ["Made", "Record", "dag_faults", "ddl_faults", "run_transform"]
