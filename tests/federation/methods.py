"""Toy methods: importable, because worker processes import their steps."""

import numpy as np

from daskfc.checks import integer, real
from daskfc.errors import PrivacyError
from daskfc.federation import FederatedClusterer, LabelledSamples, own_labels, param
from tests.federation.steps import Vector, row_sum


def above(data, limit) -> LabelledSamples:
    """Label samples by whether their first column is above a limit."""
    return own_labels(data, data.rows(0, data.n_samples)[:, 0] > limit.values[0])


def new_above(new, limit) -> LabelledSamples:
    return above(new, limit)


def mean_of(parts, n, shift, random) -> Vector:
    """The mean, with the first number that the seed of the run leads to beside it."""
    mean = sum(part.values for part in parts.values()) / n + shift
    return Vector(np.append(mean, random.random()))


class Above(FederatedClusterer):
    """Two clusters: below the mean of the first column and above; the mean stays at the server."""

    split = "samples"
    n_samples: int = param(integer(low=1), kw_only=False)
    shift: float = param(real(), default=0.0)

    def _fit(self, federation):
        with self._stage(federation, "sums"):
            summed = federation.ask(row_sum)
            federation.wait(summed)
        with self._stage(federation, "limit"):
            self._limit = federation.on_server(mean_of, summed, n=self.n_samples, shift=self.shift)
        told = federation.tell(self._limit)
        return federation.publish(above, told, party="clients", wait=False)

    def _predict(self, federation, new):
        told = federation.tell(self._limit, clients=list(new))
        return federation.publish(new_above, new, told, party=list(new), wait=False)


class AboveOnce(Above):
    """The same, of which no fit may be repeated for the sake of predict."""

    def _check_refit(self):
        raise PrivacyError("the budget of this fit is spent. Fit again.")


class AboveOfCaller(Above):
    """The same, whose limit the caller keeps."""

    model_at_parties = False

    def _fit(self, federation):
        parts = super()._fit(federation)
        self.limit_ = federation.publish(self._limit)
        return parts

    def _predict(self, federation, new):
        return federation.publish(new_above, new, self.limit_, party=list(new), wait=False)


class FirstColumns(Above):
    """The same for columns of the same samples."""

    split = "columns"


class FitsOnly(FederatedClusterer):
    """Without parameters of its own, and without `predict`."""

    split = "samples"

    def _fit(self, federation):
        with self._stage(federation, "limit"), self._stage(federation, "limit"):
            zero = federation.tell(zero_limit)
        return federation.publish(above, zero, party="clients", wait=False)


def zero_limit() -> Vector:
    return Vector(np.zeros(1))
