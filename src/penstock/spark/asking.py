"""What is said where a Spark does not answer as those do that Penstock knows."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from pyspark import __version__ as version
from pyspark.errors import PySparkException

from penstock.errors import PenstockError

KNOWN_SPARKS = ("4.2", "4.3")
"""What the contract tests pass on; see ``make test`` and ``make oldest``."""

P = ParamSpec("P")
T = TypeVar("T")
Self_ = TypeVar("Self_")


def asks(
    question: str,
) -> Callable[[Callable[Concatenate[Self_, P], T]], Callable[Concatenate[Self_, P], T]]:
    """Marks a method that asks Spark in private; a failure names the question and the Spark."""

    def marked(
        method: Callable[Concatenate[Self_, P], T],
    ) -> Callable[Concatenate[Self_, P], T]:
        @wraps(method)
        def asked(self: Self_, /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return method(self, *args, **kwargs)
            except (PenstockError, PySparkException):
                raise
            except Exception as error:
                raise PenstockError(_unanswered(question, error)) from error

        return asked

    return marked


def _unanswered(question: str, error: Exception) -> str:
    known = " and ".join(KNOWN_SPARKS)
    reason = str(error).strip().partition("\n")[0]
    return (
        f"Penstock knows Spark {known}; this is {version}, which does not tell {question}: {reason}"
    )
