"""Weighted estimates and their intervals.

An admitted tuple carries the weight ``w = 1 / rate``. Each tuple is admitted independently, so
(Horvitz and Thompson, 1952) ``Σw`` and ``Σwx`` are unbiased for the count and the sum of all
that arrived, and ``Σ w(w-1) x²``, over the admitted, is unbiased for the variance of ``Σwx``.
Mean, variance and covariance are smooth functions of such sums; to first order each is a sum of
its tuples' *influences*, whose variance is estimated in the same way. One pass is enough, and
estimates of parts add up: ``merged == whole``.

Intervals are Student's, with the effective number of tuples ``(Σ w(w-1))² / Σ (w(w-1))²`` for
degrees of freedom, less one where the spread is taken about the estimate itself.
"""

from dataclasses import dataclass, field, replace
from math import inf, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.core.types import Floats
from penstock.estimates import student


class Estimate(NamedTuple):
    """A value and the interval that holds the truth with the confidence asked for."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, variance: float, confidence: float, freedom: float) -> "Estimate":
        half = student(_z(confidence), 1.0 / max(freedom, 1.0)) * sqrt(max(variance, 0.0))
        return cls(value, value - half, value + half)


def _z(confidence: float) -> float:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def _zeros() -> Floats:
    return np.zeros((3, 3))


@dataclass(frozen=True)
class Sample:
    """Sums over admitted tuples ``(x, y, w)`` from which every estimate follows.

    ``first[i, j] = Σ w xⁱ yʲ`` and ``second[i, j] = Σ w(w-1) xⁱ yʲ`` for i, j up to 2, with x and
    y taken from ``origin`` so that large offsets cost no precision. Samples with the same origin
    add up.

    >>> s = Sample().update([1.0, 2.0], weight=[2.0, 2.0])
    >>> s.count().value, s.sum().value, s.mean().value
    (4.0, 6.0, 1.5)
    """

    origin: tuple[float, float] = (0.0, 0.0)
    first: Floats = field(default_factory=_zeros)
    second: Floats = field(default_factory=_zeros)
    squared: float = 0.0
    """``Σ (w(w-1))²``."""

    def update(
        self, x: npt.ArrayLike, y: npt.ArrayLike | None = None, *, weight: npt.ArrayLike = 1.0
    ) -> "Sample":
        """The sample with these tuples added; without ``y``, y is x."""
        xs = np.atleast_1d(np.asarray(x, dtype=np.float64))
        ys = xs if y is None else np.asarray(y, dtype=np.float64)
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), xs.shape)
        powers_x = np.vander(xs - self.origin[0], 3, increasing=True)
        powers_y = np.vander(ys - self.origin[1], 3, increasing=True)
        return replace(
            self,
            first=self.first + np.einsum("n,ni,nj->ij", w, powers_x, powers_y),
            second=self.second + np.einsum("n,ni,nj->ij", w * (w - 1), powers_x, powers_y),
            squared=self.squared + float(((w * (w - 1)) ** 2).sum()),
        )

    def __add__(self, other: "Sample") -> "Sample":
        if self.origin != other.origin:
            raise ValueError(f"samples about {self.origin} and {other.origin} do not add up")
        return replace(
            self,
            first=self.first + other.first,
            second=self.second + other.second,
            squared=self.squared + other.squared,
        )

    @property
    def effective(self) -> float:
        """How many equal tuples would tell as much about what was not admitted."""
        return float(self.second[0, 0]) ** 2 / self.squared if self.squared else inf

    def count(self, confidence: float = 0.95) -> Estimate:
        value, variance = float(self.first[0, 0]), float(self.second[0, 0])
        return Estimate.around(value, variance, confidence, self.effective)

    def sum(self, confidence: float = 0.95) -> Estimate:
        x = np.array([self.origin[0], 1.0, 0.0])
        value, variance = float(x @ self.first[:, 0]), self._variance_of(x, _ONE)
        return Estimate.around(value, variance, confidence, self.effective)

    def mean(self, confidence: float = 0.95) -> Estimate:
        """Of x; not a number where nothing was admitted."""
        if not self.first[0, 0]:
            return _NOTHING
        centre = self._centre()[0]
        variance = self._variance_of(np.array([-centre, 1.0, 0.0]), _ONE) / self.first[0, 0] ** 2
        return self._about_itself(self.origin[0] + centre, variance, confidence)

    def variance(self, confidence: float = 0.95) -> Estimate:
        """Population variance of x, for a sample that was updated without y."""
        estimate = self.covariance(confidence)
        return estimate._replace(low=max(estimate.low, 0.0))

    def covariance(self, confidence: float = 0.95) -> Estimate:
        """Population covariance: the influence of a tuple is ``(x-μ)(y-ν) - cov``."""
        total = self.first[0, 0]
        if not total:
            return _NOTHING
        mu, nu = self._centre()
        value = float(self.first[1, 1] / total - mu * nu)
        # ((x-μ)(y-ν) - c)² = (x-μ)²(y-ν)² - 2c (x-μ)(y-ν) + c², each term a form in `second`
        x, y = np.array([-mu, 1.0, 0.0]), np.array([-nu, 1.0, 0.0])
        variance = (
            self._variance_of(x, y)
            - 2 * value * float(x @ self.second @ y)
            + value**2 * float(self.second[0, 0])
        )
        return self._about_itself(value, variance / total**2, confidence)

    def _about_itself(self, value: float, variance: float, confidence: float) -> Estimate:
        left = max(1.0 - 1.0 / self.effective, 0.5)
        return Estimate.around(value, variance / left, confidence, self.effective * left)

    def _centre(self) -> tuple[float, float]:
        total = self.first[0, 0]
        return float(self.first[1, 0] / total), float(self.first[0, 1] / total)

    def _variance_of(self, in_x: Floats, in_y: Floats) -> float:
        """``Σ w(w-1) (p(x) q(y))²`` for polynomials p, q of degree one."""
        return float(_square(in_x) @ self.second @ _square(in_y))


_ONE = np.array([1.0, 0.0, 0.0])
_NOTHING = Estimate(float("nan"), float("-inf"), float("inf"))


def _square(polynomial: Floats) -> Floats:
    constant, linear, _ = polynomial
    return np.array([constant**2, 2 * constant * linear, linear**2])
