"""The worked numbers of the seeds, and law 2 on random queries."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from tests.reference.quality import (
    RESULT,
    Flow,
    Operator,
    Query,
    at_most,
    emit,
    exactly,
    same,
    source_sic,
)

# THEMIS, figure 2: b makes 2 of 4 tuples, c 2 of 2, a 2 of those 4.
FIGURE_2 = Query(
    sources={"s1": 4, "s2": 2},
    operators={
        "b": Operator(("s1",), at_most(2)),
        "c": Operator(("s2",), same),
        "a": Operator(("b", "c"), exactly(2)),
    },
)


def test_themis_figure_2_without_loss() -> None:
    flows = FIGURE_2.flows()
    assert flows["s1", "b"].each == Fraction(1, 8)
    assert flows["s2", "c"].each == Fraction(1, 4)
    assert flows["a", RESULT].each == Fraction(1, 2)
    assert FIGURE_2.sic() == 1


def test_themis_figure_2_with_the_losses_shown() -> None:
    # The text has c shed an input and, two sentences on, one of its derived tuples. Both
    # readings lose a quarter there, and both give the printed 0.5.
    assert FIGURE_2.sic(shed={("s1", "b"): 2, ("c", "a"): 1}) == Fraction(1, 2)
    assert FIGURE_2.sic(shed={("s1", "b"): 2, ("s2", "c"): 1}) == Fraction(1, 2)


# Thesis, figure 3.7: three sources, an average each, then the maximum. Absolute values there
# are ours times the number of sources.
FIGURE_3_7 = Query(
    sources={"1": 2, "2": 4, "3": 3},
    operators={
        **{f"avg{i}": Operator((str(i),), exactly(1)) for i in (1, 2, 3)},
        "max": Operator(("avg1", "avg2", "avg3"), exactly(1)),
    },
)


def test_thesis_figure_3_7() -> None:
    flows = FIGURE_3_7.flows()
    assert [3 * flows[s, f"avg{s}"].each for s in "123"] == [
        Fraction(1, 2),
        Fraction(1, 4),
        Fraction(1, 3),
    ]
    assert [3 * flows[f"avg{s}", "max"].each for s in "123"] == [1, 1, 1]
    assert 3 * FIGURE_3_7.sic() == 3
    assert 3 * FIGURE_3_7.sic(shed={("2", "avg2"): 1}) == Fraction(11, 4)


def test_thesis_figure_3_8_split() -> None:
    query = Query(
        sources={"twitter": 300},
        operators={
            "split": Operator(("twitter",), same, parts=(100, 100, 100)),
            **{f"nlp{i}": Operator(("split",), same) for i in range(3)},
            "top": Operator(("nlp0", "nlp1", "nlp2"), at_most(10)),
        },
    )
    flows = query.flows()
    assert {flows["split", f"nlp{i}"] for i in range(3)} == {Flow(100, Fraction(1, 3))}
    assert flows["split", "nlp0"].each == flows["nlp0", "top"].each == Fraction(1, 300)
    assert flows["top", RESULT] == Flow(10, Fraction(1))
    assert flows["top", RESULT].each == Fraction(1, 10)


def test_thesis_figure_3_9_multiple_results() -> None:
    query = Query(
        sources={"twitter": 3},
        operators={
            "keyword": Operator(("twitter",), exactly(2)),
            "positive": Operator(("keyword",), exactly(1)),
            "negative": Operator(("keyword",), exactly(1)),
            "count+": Operator(("positive",), exactly(1), result=True),
            "count-": Operator(("negative",), exactly(1), result=True),
            "ratio": Operator(("count+", "count-"), exactly(1)),
        },
    )
    flows = query.flows()
    assert flows["keyword", "positive"].each == Fraction(1, 4)
    assert flows["positive", "count+"].each == Fraction(1, 2)
    results = [flows[name, RESULT].sic for name in ("count+", "count-", "ratio")]
    assert results == [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    assert query.sic() == 1


def test_an_empty_batch_carries_the_value_on() -> None:
    query = Query(
        {"s": 10},
        {"hot": Operator(("s",), exactly(0)), "avg": Operator(("hot",), exactly(1))},
    )
    assert query.flows()["hot", "avg"] == Flow(0, Fraction(1))
    assert query.sic() == 1


def test_a_join_spreads_what_came_in_over_its_matches() -> None:
    query = Query({"tmp": 4, "hum": 5}, {"join": Operator(("tmp", "hum"), exactly(20))})
    assert query.flows()["join", RESULT].each == Fraction(1, 20)


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ({"a": Operator(("nowhere",))}, "'nowhere', which is not there"),
        ({"a": Operator(("b",)), "b": Operator(("a",))}, "no cycles"),
        ({"s": Operator(("s",))}, "both a source and an operator"),
    ],
)
def test_queries_that_are_none(operators: dict[str, Operator], message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        Query({"s": 1}, operators)


def test_shedding_from_an_edge_that_is_not_there() -> None:
    with pytest.raises(PenstockError, match="no edge"):
        FIGURE_2.sic(shed={("a", "b"): 1})
    with pytest.raises(ValueError, match="cannot shed 9 of 4"):
        FIGURE_2.sic(shed={("s1", "b"): 9})


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Random DAGs of maps, filters, aggregates, joins, unions, splits and fan-outs."""
    sources = {f"s{i}": draw(st.integers(1, 50)) for i in range(draw(st.integers(1, 4)))}
    operators: dict[str, Operator] = {}
    for number in range(draw(st.integers(1, 6))):
        have = [*sources, *operators]
        inputs = draw(st.lists(st.sampled_from(have), min_size=1, max_size=3, unique=True))
        emitted = draw(st.one_of(st.just(same), st.integers(0, 100).map(exactly)))
        operators[f"o{number}"] = Operator(tuple(inputs), emitted, result=draw(st.booleans()))
    for name in sources:  # a source that nobody reads carries its share to nobody
        if not any(name in operator.inputs for operator in operators.values()):
            operators[f"of-{name}"] = Operator((name,))
    return Query(sources, operators)


@given(queries())
def test_law_2_information_is_conserved_at_every_operator(query: Query) -> None:
    flows = query.flows()
    for name in query.operators:
        entered = sum(flow.sic for (_, to), flow in flows.items() if to == name)
        left = sum(flow.sic for (source, _), flow in flows.items() if source == name)
        assert entered == left
    assert query.sic() == 1


@given(queries(), st.data())
def test_law_3_a_result_lacks_exactly_what_was_shed(query: Query, data: st.DataObject) -> None:
    edge = data.draw(st.sampled_from(sorted(query.flows())))
    before = query.flows()[edge]
    lost = data.draw(st.integers(0, before.tuples))
    assert query.sic(shed={edge: lost}) == 1 - lost * before.each
    assert 0 <= query.sic(shed={edge: lost}) <= 1


@given(st.integers(0, 60), st.integers(1, 5), st.data())
def test_a_split_keeps_the_value_of_each_tuple(n: int, k: int, data: st.DataObject) -> None:
    flow = Flow(n, Fraction(1))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), min_size=k - 1, max_size=k - 1)))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
    split = flow.split(parts)
    assert sum(part.sic for part in split) == 1
    assert all(part.each == flow.each for part in split if part.tuples)
    assert emit(split, n) == flow


def test_the_value_of_a_source_tuple() -> None:
    assert source_sic(4, 2) == Fraction(1, 8)
