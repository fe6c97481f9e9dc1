"""The functions of ``pyspark.sql.functions`` that ``penstock.functions`` passes on as they are.

This is a file of its own so that type checkers see which names are Spark's and which are not:
they read the list below.
"""

from pyspark.sql import functions as _spark
from pyspark.sql.functions import *  # noqa: F403

__all__: list[str] = []
__all__ += _spark.__all__
__all__.remove("approx_percentile")
__all__.remove("avg")
__all__.remove("corr")
__all__.remove("count")
__all__.remove("count_if")
__all__.remove("covar_pop")
__all__.remove("covar_samp")
__all__.remove("mean")
__all__.remove("median")
__all__.remove("percentile")
__all__.remove("percentile_approx")
__all__.remove("std")
__all__.remove("stddev")
__all__.remove("stddev_pop")
__all__.remove("stddev_samp")
__all__.remove("sum")
__all__.remove("try_avg")
__all__.remove("try_sum")
__all__.remove("var_pop")
__all__.remove("var_samp")
__all__.remove("variance")
