"""The guarded stream: a user's Python function on each tuple, with a guard before it.

    scored = site.guard(rides, score, key="model", wait="500ms", arrival="_arrival")

What a tuple waits depends on the clock, so a batch that Spark runs again may shed other tuples.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.guard.admission import Function
from penstock.guard.plan_server import PlanServer
from penstock.guard.task import ARRIVED, KEY, STRATUM, MakeAdmission, Task
from penstock.spark import arguments, guard_arguments
from penstock.spark.guard_driver import Guard

OnError = Literal["fail", "skip"]


def guarded_stream(
    guard: Guard,
    server: PlanServer,
    stream: DataFrame,
    function: Function,
    key: tuple[Column, ...],
    *,
    output: str,
    arrival: Column | None,
    stratum: Column | None,
    inputs: Sequence[str],
    on_error: OnError,
    make: MakeAdmission | None = None,
) -> DataFrame:
    """Returns the tuples that the guard admits, with what the function answered for each."""
    columns = tuple(stream.columns)
    field = _output_field(output, columns)
    extra: Mapping[str, Column | None] = {
        KEY: guard_arguments.fingerprint_of(key, stream),
        ARRIVED: None if arrival is None else arrival.cast("timestamp").cast("double"),
        STRATUM: stratum,
    }
    task = Task(
        function=function,
        plans=server.serve(guard.name, guard.next_plan),
        reports=guard.reports,
        columns=columns,
        inputs=tuple(inputs) or columns,
        output=_arrow_field(field),
        arrival=arrival is not None,
        strata=stratum is not None,
        skip_errors=on_error == "skip",
        make=make,
    )

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        yield from task(batches)

    run.__name__ = guard.name  # what Spark shows in plans, and what the site finds it by
    schema = StructType([*stream.schema.fields, *field.fields])
    marked = [column.alias(name) for name, column in extra.items() if column is not None]
    return stream.select("*", *marked).mapInArrow(run, schema)


def _output_field(output: str, columns: Sequence[str]) -> StructType:
    """Returns the column of the answers, alone in a structure."""
    field = arguments.struct("output", output, "'score double'")
    if len(field) != 1:
        raise PenstockError(
            "output must be one column, such as 'score double', or 'result struct<...>' for "
            f"several values; got {output!r}"
        )
    if '":false' in field.json():  # nullable, or that of something inside
        raise PenstockError(
            "output must be a column without NOT NULL, such as 'score double', since an answer can "
            f"be missing; got {output!r}"
        )
    names = {name.lower() for name in columns}
    if field.names[0].lower() in names:
        raise PenstockError(
            "output must be a column that the stream does not have, such as 'other double'; got "
            f"{field.names[0]!r}"
        )
    if names & {KEY, ARRIVED, STRATUM}:
        raise PenstockError(
            f"the stream must have no column {KEY}, {ARRIVED} or {STRATUM}, which are the guard's "
            "own; rename your column"
        )
    return field


def _arrow_field(field: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(field).field(0)
    except AssertionError:  # Spark wants to know a zone
        raise PenstockError(
            "output must be a double, a text or a timestamp_ntz where the answer is a time, such "
            "as 'seen timestamp_ntz'; got a timestamp"
        ) from None
