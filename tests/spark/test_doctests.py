"""The examples in ``penstock.functions`` run as they are written."""

from __future__ import annotations

import doctest

from pyspark.sql import SparkSession

from penstock import functions


def test_the_examples_of_the_functions(spark: SparkSession) -> None:
    found = doctest.testmod(functions, extraglobs={"spark": spark})
    assert found.attempted >= 15
    assert found.failed == 0
