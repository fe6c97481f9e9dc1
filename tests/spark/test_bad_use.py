"""Wrong use is refused at once, and the message says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import Concept, QueryTerms, Site
from penstock import functions as pf
from penstock.errors import PenstockError


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


@pytest.fixture
def site(spark: SparkSession) -> Iterator[Site]:
    with Site(spark) as made:
        yield made


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interval": 0}, "interval must be longer than 0, such as '1 second' or '500ms'; got 0"),
        ({"interval": "0s"}, "interval must be longer than 0"),
        (
            {"interval": True},
            "interval must be a duration, such as '1 second' or '500ms'; got True",
        ),
        (
            {"latency": "500ms"},
            "latency: 0.5 s cannot be held: a tuple waits for up to an interval",
        ),
        ({"stw": 0.5}, "stw: 0.5 s is shorter than an interval, 1 s"),
        (
            {"interval": "soon"},
            "interval must be a duration, such as '1 second' or '500ms'; got 'soon'",
        ),
        ({"latency": -1}, "latency must be a duration"),
        ({"latency": "0s"}, "latency must be longer than 0"),
        ({"stw": float("nan")}, "stw must be a duration"),
        ({"policy": "balance"}, "unknown policy 'balance': did you mean 'balance-sic'"),
        ({"policy": "zzz"}, "unknown policy 'zzz': there are .*uniform"),
        (
            {"policy": 5},
            "policy must be a name or an object with a method 'rates', .*got 5",
        ),
        ({"headroom": 5}, "headroom must be the share of a budget .*such as 0.9; got 5"),
        ({"headroom": "a"}, "headroom must be the share of a budget .*got 'a'"),
        ({"terms": {"a": 5}}, r"terms\['a'\] must be terms, such as QueryTerms\(weight=2\); got 5"),
        (
            {"directory": "/proc/nowhere"},
            "directory must be one that Penstock can make; got '/proc/nowhere'",
        ),
    ],
)
def test_settings(spark: SparkSession, settings: dict[str, float | str], message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        build(spark, **settings)


def build(spark: SparkSession, **settings: object) -> object:
    make: type = Site
    return make(spark, **settings)


def test_a_batch_has_no_overload(site: Site, spark: SparkSession) -> None:
    with pytest.raises(PenstockError, match=r"streaming DataFrame, such as spark\.readStream"):
        site.gate(spark.range(10).toDF("n"), query="q")


def test_a_column_that_is_not_there(site: Site, stream: DataFrame) -> None:
    with pytest.raises(PenstockError, match=r"id: .*no column 'valu'; did you mean 'value'"):
        site.gate(stream, query="q", id="valu")
    with pytest.raises(PenstockError, match=r"strata: .*no column 'zone'; there are timestamp"):
        site.gate(stream, query="q", strata=["value", "zone"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"query": 5}, "query must be a name or a column of names, .*got 5"),
        ({"query": ""}, "query must be a name or a column of names, .*got ''"),
        ({"source": None}, "source must be a name or a column of names, .*got None"),
        ({"sources": 3}, "sources must be given only where source is a column, .*got 3"),
        ({"comes_and_goes": "often"}, "comes_and_goes must be True or False; got 'often'"),
        ({"max_strata": 0}, "max_strata must be a whole number from 1, .*got 0"),
        ({"max_strata": 2.5}, "max_strata must be a whole number from 1, .*got 2.5"),
        (
            {"concept": Concept(window="5m", time="'noon'")},
            r"time must be .*such as 'cast\('noon' as timestamp\)'; got the text \"'noon'\"",
        ),
    ],
)
def test_gates(site: Site, stream: DataFrame, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        site.gate(stream, **{"query": "q", **wrong})


def test_declared_sources(site: Site, stream: DataFrame) -> None:
    column = stream["value"]
    with pytest.raises(PenstockError, match=r"sources must be a whole number from 1, .*got 0"):
        site.gate(stream, query="q", source=column, sources=0)
    with pytest.raises(PenstockError, match="not where sources come and go; got 2"):
        site.gate(stream, query="q", source=column, sources=2, comes_and_goes=True)


def test_gating_twice(site: Site, stream: DataFrame) -> None:
    gated = site.gate(stream, query="q")
    with pytest.raises(PenstockError, match="went through a gate already; gate it only once"):
        site.gate(gated.where("value > 3"), query="q")


def test_a_query_without_a_gate(site: Site, stream: DataFrame) -> None:
    with pytest.raises(PenstockError, match=r"no gate of this site: .*site\.gate"):
        site.start(stream.writeStream.format("noop"), name="q")


def test_two_streams_of_one_name_in_a_query(site: Site, stream: DataFrame) -> None:
    both = site.gate(stream, query="q").union(site.gate(stream, query="q"))
    with pytest.raises(PenstockError, match=r"two streams .* 'source': .*site\.gate\(source=...\)"):
        site.start(both.writeStream.format("noop"), name="q")


def test_a_gate_of_another_site(site: Site, spark: SparkSession, stream: DataFrame) -> None:
    with Site(spark) as other:
        gated = other.gate(stream, query="q")
        with pytest.raises(PenstockError, match="no gate of this site"):
            site.start(gated.writeStream.format("noop"), name="q")


def test_intervals_names_and_gates_of_queries(
    site: Site, spark: SparkSession, stream: DataFrame
) -> None:
    gated = site.gate(stream, query="q")
    for wrong in (0, "-1s"):
        with pytest.raises(PenstockError, match="interval must be "):
            site.start(gated.writeStream.format("noop"), name="q", interval=wrong)
    with Site(spark, latency="2s") as other:
        slow = other.gate(stream, query="q").writeStream.format("noop")
        with pytest.raises(PenstockError, match="q: latency: 2 s cannot be held"):
            other.start(slow, name="q", interval="5s")
    with pytest.raises(Exception, match="nonsense"):
        site.start(gated.writeStream.format("nonsense"), name="q")

    # none of the failures above has used the name or the gate up
    site.start(gated.writeStream.format("noop"), name="q", interval="30s")
    with pytest.raises(PenstockError, match=r"of the name 'q' is running: .*another name"):
        site.start(site.gate(stream, query="q").writeStream.format("noop"), name="q")
    both = gated.union(site.gate(stream, query="q", source="other"))
    with pytest.raises(PenstockError, match=r"belongs to another query.*for each query"):
        site.start(both.writeStream.format("noop"), name="r")


def test_a_concept_that_is_refused_is_forgotten(site: Site, stream: DataFrame) -> None:
    concept = Concept(window="5m", time="nope")
    with pytest.raises(PenstockError, match=r"time must be a number or a time .*; got 'nope'"):
        site.gate(stream, query="q", strata="value", concept=concept)
    site.gate(stream, query="q", strata="value")


def test_two_streams_of_one_query_name(site: Site, stream: DataFrame) -> None:
    """Their accounts would be one."""
    first = site.gate(stream, query="a").writeStream.format("noop")
    second = site.gate(stream, query="a").writeStream.format("noop")
    site.start(first, name="one")
    with pytest.raises(PenstockError, match="a query of the name 'a' is running"):
        site.start(second, name="two")


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"weight": 0}, "weight must be greater than 0, such as 2; got 0"),
        ({"weight": "a"}, "weight must be a number, such as 0.5; got 'a'"),
        ({"floor": 2}, "floor must lie between 0 and 1, such as 0.1; got 2"),
        ({"floor": 0.8, "ceiling": 0.3}, "ceiling must not be below the floor, 0.8; got 0.3"),
    ],
)
def test_terms(terms: dict[str, Any], message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        QueryTerms(**terms)


@pytest.mark.spark
def test_bounds_are_asked_for_or_not() -> None:
    with pytest.raises(ValueError, match=r"bounds must be True or False.*; got 2"):
        pf.avg("value", bounds=2)  # type: ignore[arg-type]
