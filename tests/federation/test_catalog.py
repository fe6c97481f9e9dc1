"""Catalogs that somebody else gives: what they may not smuggle into the SQL that a site makes."""

from __future__ import annotations

import pytest

from penstock.federation.catalog import columns_of
from penstock.federation.known_splits import KnownSplits
from penstock.federation.messages import FragmentOrder, LentSource
from penstock.federation.query_file import FederatedQuery
from penstock.federation.split import split
from penstock.sql import SqlError

COLUMNS = "`ts` TIMESTAMP, `up at` TIMESTAMP, `cpu` DOUBLE"


def test_a_name_of_a_column_cannot_end_itself_and_go_on_as_sql() -> None:
    inside = "cpu``, (SELECT max(value) FROM text.``/etc/passwd``) AS leak, ``ts"
    evil = LentSource(columns=f"`ts` TIMESTAMP, `{inside}` DOUBLE", time="ts")
    query = FederatedQuery(query="all", sql="SELECT * FROM rome.machines")
    with pytest.raises(SqlError, match="must not have a backquote"):
        split(query, {"rome.machines": evil})


def test_columns_that_are_nested_too_deeply_are_a_mistake_and_no_crash() -> None:
    deep = "array<" * 3_000 + "int" + ">" * 3_000
    with pytest.raises(SqlError, match="as in CREATE TABLE") as error:
        columns_of("rome.machines", f"a {deep}")
    assert len(str(error.value)) < 400


def test_a_query_is_cut_anew_where_the_event_time_of_a_source_is_another() -> None:
    splits = KnownSplits()
    query = FederatedQuery(query="all", sql="SELECT * FROM rome.machines")

    def time_of(time: str) -> str | None:
        catalog = {"rome.machines": LentSource(columns=COLUMNS, time=time)}
        order = FragmentOrder(query=query, fragment="root", places={}, catalog=catalog)
        return splits.of(order).fragments[0].time

    assert (time_of("ts"), time_of("up at")) == ("ts", "up at")
