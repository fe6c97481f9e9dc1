"""Lists the functions that SQL from outside may call; whatever is not here is refused.

A function is here if its result depends on its arguments alone, if it reads neither files nor
settings, runs no code of others, and makes no large value of a small one. Those of ``GROWING`` make
one value of several, so that how often they are nested is bounded.
"""

WINDOWS = frozenset({"window", "window_time", "session_window"})
AGGREGATES = frozenset(
    {
        *("count", "count_if", "sum", "try_sum", "avg", "mean", "try_avg", "min", "max"),
        *("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "std"),
        *("covar_pop", "covar_samp", "corr", "percentile", "percentile_approx"),
        *("approx_percentile", "median", "approx_count_distinct", "mode", "max_by", "min_by"),
        *("first", "first_value", "last", "last_value", "any_value", "collect_list"),
        *("collect_set", "array_agg", "bool_and", "bool_or", "every", "some", "any"),
        *("bit_and", "bit_or", "bit_xor"),
    }
)
CONDITIONS = frozenset(
    {
        *("if", "coalesce", "ifnull", "nullif", "nvl", "nvl2", "isnull", "isnotnull", "isnan"),
        *("nanvl", "greatest", "least", "nullifzero", "zeroifnull"),
    }
)
MATHS = frozenset(
    {
        *("abs", "ceil", "ceiling", "floor", "sign", "signum", "sqrt", "cbrt", "exp", "expm1"),
        *("ln", "log", "log10", "log1p", "log2", "pow", "power", "mod", "pmod", "div", "e", "pi"),
        *("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "atan2", "sinh"),
        *("cosh", "tanh", "asinh", "acosh", "atanh", "degrees", "radians", "hypot", "rint"),
        *("negative", "positive", "width_bucket", "shiftleft", "shiftright", "bit_count", "round"),
        *("bround", "try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"),
        *("hash", "xxhash64", "crc32", "bigint", "int", "smallint", "tinyint", "double", "float"),
        *("boolean", "string", "date", "timestamp"),
    }
)
TEXTS = frozenset(
    {
        *("upper", "ucase", "lower", "lcase", "initcap", "length", "char_length", "len"),
        *("character_length", "octet_length", "bit_length", "ascii", "trim", "ltrim", "rtrim"),
        *("btrim", "left", "right", "substr", "substring", "substring_index", "instr", "locate"),
        *("position", "contains", "startswith", "endswith", "reverse", "soundex", "levenshtein"),
        *("split_part", "translate", "md5", "sha", "sha1", "sha2"),
    }
)
TIMES = frozenset(
    {
        *("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear"),
        *("weekofyear", "hour", "minute", "second", "date_trunc", "trunc", "date_add", "date_sub"),
        *("datediff", "date_diff", "add_months", "months_between", "last_day", "to_date"),
        *("to_timestamp", "unix_timestamp", "unix_micros", "unix_millis", "unix_seconds"),
        *("unix_date", "timestamp_seconds", "timestamp_millis", "timestamp_micros"),
        *("date_from_unix_date", "date_part", "datepart", "extract"),
    }
)
COLLECTIONS = frozenset(
    {
        *("size", "cardinality", "array_size", "element_at", "try_element_at", "get"),
        *("array_contains", "array_position", "array_min", "array_max", "array_sort"),
        *("sort_array", "array_distinct", "array_compact", "slice", "map_keys", "map_values"),
        *("map_contains_key",),
    }
)
GROWING = frozenset({"concat", "concat_ws", "array", "struct", "named_struct", "map", "repeat"})
"""Functions whose result is about as large as all arguments together, or as often as ``repeat``."""

ALLOWED = AGGREGATES | WINDOWS | CONDITIONS | MATHS | TEXTS | TIMES | COLLECTIONS | GROWING
