"""Lists the kinds of nodes that SQL from outside may be made of, and what each may have.

The parser knows hundreds of kinds, and each of them things that few know of: hints, versions of
tables, scripts. So nothing is refused by name: what is not here is refused.
"""

from sqlglot import exp

_ONE = frozenset({"this"})
_TWO = frozenset({"this", "expression"})
_SEVERAL = frozenset({"expressions"})

SYNTAX: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        {
            *("with_", "expressions", "from_", "joins", "where", "group", "having"),
            *("order", "limit", "distinct"),
        }
    ),
    exp.Union: _TWO | {"with_", "distinct", "order", "limit"},
    exp.With: _SEVERAL,
    exp.CTE: _ONE | {"alias"},
    exp.Subquery: _ONE | {"alias"},
    exp.From: _ONE,
    exp.Join: _ONE | {"on", "using", "side", "kind"},
    exp.Table: _ONE | {"db", "alias"},
    exp.TableAlias: _ONE,
    exp.Where: _ONE,
    exp.Group: _SEVERAL,
    exp.Having: _ONE,
    exp.Order: _SEVERAL,
    exp.Ordered: _ONE | {"desc", "nulls_first"},
    exp.Limit: frozenset({"expression"}),
    exp.Alias: _ONE | {"alias"},
    exp.Column: _ONE | {"table", "db", "catalog"},
    exp.Identifier: _ONE | {"quoted"},
    exp.Star: frozenset({"except_"}),
    exp.Literal: _ONE | {"is_string"},
    exp.Boolean: _ONE,
    exp.Null: frozenset(),
    exp.Interval: _ONE | {"unit"},
    exp.Var: _ONE,
    exp.DataType: _ONE | {"expressions", "nested"},
    exp.DataTypeParam: _ONE,
    exp.Cast: _ONE | {"to"},
    exp.TryCast: _ONE | {"to", "safe"},
    exp.Anonymous: _ONE | _SEVERAL,
    exp.Filter: _TWO,
    exp.Distinct: _SEVERAL,
    exp.IgnoreNulls: _ONE,
    exp.RespectNulls: _ONE,
    exp.Any: _ONE,
    exp.Case: _ONE | {"ifs", "default"},
    exp.If: _ONE | {"true", "false"},
    exp.Extract: _TWO,
    exp.Trim: _TWO | {"position"},
    exp.Substring: _ONE | {"start", "length"},
    exp.StrPosition: _ONE | {"substr"},
    exp.Tuple: _SEVERAL,
    exp.Paren: _ONE,
    exp.Not: _ONE,
    exp.Neg: _ONE,
    exp.Dot: _TWO,
    exp.Bracket: _ONE | {"expressions", "offset", "safe", "returns_list_for_maps"},
    exp.In: _ONE | {"expressions", "query"},
    exp.Between: _ONE | {"low", "high"},
    exp.Is: _TWO,
    exp.Like: _TWO,
    exp.ILike: _TWO,
    exp.Escape: _TWO,
    exp.DPipe: _TWO | {"safe"},
    exp.Div: _TWO | {"typed", "safe"},
} | dict.fromkeys(
    (
        *(exp.And, exp.Or, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ),
        *(exp.NullSafeNEQ, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv),
        *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor),
    ),
    _TWO,
)
"""What no stream can have, such as ``UNION DISTINCT``, is refused elsewhere, with the reason."""
