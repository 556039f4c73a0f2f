"""The plan of a transform: nodes that cut its rows are refused, others are worth a remark.

A plan is walked by the classes of its nodes, in the JVM; no job runs.
"""

from collections.abc import Iterator
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.spark.errors import TransformCutsRows, TransformLeftSource
from tidemark.staging.column import COORDINATES

# ruff: noqa: TID253 -- imported only once there is something to read


SOURCE = "tidemark"
"""The name of the node that stands right behind the source."""

CUTS = {"GlobalLimit": "limit", "LocalLimit": "limit", "Offset": "offset", "Tail": "tail"}
"""Nodes that leave rows out by their number: which ones depends on where batches are cut."""

BY_BATCH = {
    "Aggregate": "groupBy or agg",
    "CoGroup": "cogroup",
    "Deduplicate": "distinct or dropDuplicates",
    "Distinct": "distinct",
    "Except": "except",
    "FlatMapCoGroupsInArrow": "cogroup",
    "FlatMapCoGroupsInPandas": "cogroup",
    "FlatMapGroupsInArrow": "groupBy().applyInArrow",
    "FlatMapGroupsInPandas": "groupBy().applyInPandas",
    "Intersect": "intersect",
    "Join of the rows with themselves": "a join of the rows with themselves",
    "Window": "a window function",
    "WindowInPandas": "a window function",
}
"""Nodes whose result for one record depends on the other records of its batch."""

BY_RECORD = {
    "CollectMetrics",
    "Filter",
    "Generate",
    "Join",
    "Project",
    "Repartition",
    "RepartitionByExpression",
    "ResolvedHint",
    "Sort",
    "SubqueryAlias",
}
"""Nodes whose rows are each made of one record, whatever other records there are."""

_INNER = {
    "AdaptiveSparkPlanExec": ("executedPlan",),
    "InMemoryRelation": ("cachedPlan",),
    "InMemoryTableScanExec": ("relation", "cachedPlan"),
    "ReusedExchangeExec": ("child",),
    "ReusedSubqueryExec": ("child",),
    "BroadcastQueryStageExec": ("plan",),
    "ResultQueryStageExec": ("plan",),
    "ShuffleQueryStageExec": ("plan",),
    "TableCacheQueryStageExec": ("plan",),
}
"""Where a node keeps a plan that is none of its children."""

_KEEPS_NONE = {"Inner", "Cross", "LeftSemi", "LeftAnti"}
_KEEPS = ({"LeftOuter"}, {"RightOuter"})
"""Joins that give no row without a record, with the source on the left and on the right."""


def as_source(rows: DataFrame, *seen: Column) -> DataFrame:
    """The same rows from a source as `refuse_cuts` knows it; Spark computes `seen` as they pass."""
    return rows.observe(SOURCE, *(seen or [F.count(F.lit(1))]))


def refuse_cuts(rows: DataFrame) -> tuple[str, ...]:
    """The plan takes every row of its source; return what to remark about it.

    Raises:
        IncompleteRead: a node cuts the rows, or the rows do not come from the source.
    """
    query = rows._jdf.queryExecution()
    asked, planned = _above_source(query.analyzed()), _above_source(query.optimizedPlan())
    if asked is None:
        raise TransformLeftSource()
    if cuts := sorted({CUTS[name] for name in asked | (planned or set()) if name in CUTS}):
        raise TransformCutsRows(cuts=tuple(cuts))
    return tuple(_remarks(asked))


def is_by_record(rows: DataFrame, source: DataFrame) -> bool:
    """Each row is made of one record, and its coordinates are the source's own, unchanged.

    Only what is known to be so is: any other node might look at several records.
    """
    own, found = _attributes(source), _attributes(rows)
    names = _above_source(rows._jdf.queryExecution().analyzed())
    return (names or set()) <= BY_RECORD and all(found.get(c) == own[c] for c in COORDINATES)


def varying(rows: DataFrame) -> bool:
    """Whether a node above the source is non-deterministic, as far as Spark knows."""
    return _varies(rows._jdf.queryExecution().analyzed())


def nodes(plan: Any) -> Iterator[tuple[str, Any]]:
    """Every node with the name of its class, also in stages, caches and subqueries."""
    name = plan.getClass().getSimpleName()
    yield name, plan
    for child in _below(name, plan):
        yield from nodes(child)


def is_source(name: str, node: Any) -> bool:
    """The node is the one right behind the source, in a logical or a physical plan."""
    return name in ("CollectMetrics", "CollectMetricsExec") and node.name() == SOURCE


def _above_source(plan: Any) -> set[str] | None:
    """Names of the nodes that rows of the source pass on their way up; None without a source."""
    name = plan.getClass().getSimpleName()
    if is_source(name, plan):
        return set()
    sides = [_above_source(one) for one in _below(name, plan)]
    found = [names for names in sides if names is not None]
    if not found:
        return None
    own = {name}
    if len(found) > 1:
        own.add(f"{name} of the rows with themselves")
    if name == "Join" and plan.joinType().toString() not in _KEEPS_NONE | _KEEPS[sides[0] is None]:
        own.add("Join that keeps others")
    return own.union(*found)


def _varies(plan: Any) -> bool:
    name = plan.getClass().getSimpleName()
    if is_source(name, plan):
        return False
    own = plan.expressions()
    return any(not own.apply(place).deterministic() for place in range(own.size())) or any(
        map(_varies, _below(name, plan))
    )


def _attributes(rows: DataFrame) -> dict[str, int]:
    """The columns with Spark's number of each: a column that is computed anew has a new one."""
    output = rows._jdf.queryExecution().analyzed().output()
    columns = [output.apply(place) for place in range(output.size())]
    return {column.name(): column.exprId().id() for column in columns}


def _below(name: str, node: Any) -> list[Any]:
    if name in _INNER:
        return [reduce(lambda inner, step: getattr(inner, step)(), _INNER[name], node)]
    return [
        some.apply(place)
        for some in (node.children(), node.subqueries())
        for place in range(some.size())
    ]


def _remarks(names: set[str]) -> Iterator[str]:
    if any(name in names for name in ("MapInArrow", "MapInPandas")):
        yield (
            "the transform uses mapInArrow or mapInPandas: its function must read its input to the"
            " end, because rows that it does not read are lost and nothing can count them"
        )
    found = sorted({BY_BATCH[name] for name in names if name in BY_BATCH})
    if found:
        yield (
            f"the transform uses {', '.join(found)}: it sees only the records of one batch, so"
            " its result depends on where batches are cut"
        )
