"""The fit of a preparation, step after step, for clients that have the same columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.federation.methods.samples import linked_samples, sample_digests
from daskfc.federation.steps.rules import Announced
from daskfc.secure.prepare import steps
from daskfc.secure.prepare.before import alike_for_all
from daskfc.secure.prepare.declared import Declared, declared_width, noisy_moments, noisy_scales
from daskfc.secure.prepare.holders import words_of_one
from daskfc.secure.prepare.moments import ColumnMoments
from daskfc.secure.prepare.quantiles import quantiles
from daskfc.secure.prepare.words import shared_words
from daskfc.secure.sums import Aggregation, MaskedSum
from daskfc.stores.layout.samples import unprepared
from daskfc.stores.store.fitted_steps import HEIGHT, SHIFTED, Columns, FittedStep
from daskfc.stores.store.prepared import but_for_words, idf_of, scale_of, width_of

STRATEGIES = ("mean", "median", "most-frequent")
SMALLEST = 5  # ours: samples that a word must have to be revealed
_MOST = 2.0**40  # public bound on counts


@dataclass
class Fitting:
    """Fitted steps so far, and the columns after them; see `of`."""

    federation: Federation
    clients: tuple[str, ...]
    columns: tuple[str, ...]
    categories: dict[str, Sequence[str]]  # columns of words; agreed words, once there are some
    missing: bool
    smallest: int  # words of fewer samples are revealed to nobody
    steps: list[FittedStep] = field(default_factory=list)
    made_of: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, federation: Federation, clients: tuple[str, ...], smallest: int) -> "Fitting":
        """Begin with the clients' stores; refuse columns with words at some clients only."""
        contract = federation.contract
        of_words = {client: set(contract.categorical.get(client, ())) for client in clients}
        columns = contract.columns[clients[0]]
        for name in columns:
            there = [client for client in clients if name in of_words[client]]
            if there and len(there) < len(clients):
                other = next(client for client in clients if client not in there)
                raise InvalidInput(
                    f"column {name!r} holds words at client {there[0]!r} and numbers at client "
                    f"{other!r}. Write one of the stores again."
                )
        words: dict[str, Sequence[str]] = {
            name: () for name in columns if name in of_words[clients[0]]
        }
        missing = any(contract.missing.get(client) for client in clients)
        return cls(federation, clients, columns, words, missing, smallest)

    @property
    def alone(self) -> bool:
        """Whether only one client has these columns."""
        return len(self.clients) == 1

    def add(self, name: str, params: Mapping[str, Any]) -> None:
        """Fit the next step; refuse a step that does not suit the columns."""
        joint = name in ("pca", "normalise")
        of_numbers = joint or name in ("tf-idf", "smooth")
        if of_numbers and (told := unprepared(self.categories, self.missing)):
            raise InvalidInput(
                f"the step {name!r} needs numbers without gaps; {told}. Put 'impute' and 'one-hot' "
                "before it."
            )
        if joint and self.alone:
            raise InvalidInput(
                f"the step {name!r} is for clients with the same columns; client "
                f"{self.clients[0]!r} has columns of its own. Leave it out."
            )
        if name in ("impute", "one-hot") and not self.alone:
            self._agree_on_words()
        if name == "one-hot":
            self.steps.append({"step": name, "height": HEIGHT})
        elif name in ("log", "clip"):
            self.steps.append({"step": name, **params})
        elif name == "smooth":
            self.steps.append({**params, "step": name, "filter": params.get("filter") or "agc"})
        elif name == "normalise":
            self._tell_of_zeros()
            self.steps.append({"step": name})
        elif name == "min-max" and params.get("low") is not None:
            self._check_numbers(name)
            self.steps.append({"step": name, **self._declared(params)})
        elif name == "standardise" and params.get("within") is not None:
            within = {} if self.alone else {"within": params["within"]}
            self.steps.append({"step": name, "own": True, **within})
            if any(self.made_of):  # effects of sites are in numbers, not in words
                self._standardise_words(params)
        elif name == "standardise" and params.get("low") is not None:
            self._check_numbers(name)
            self.steps.append({"step": name, **self._noisy_sums(params)})
        elif self.alone:
            strategy = {"strategy": params.get("strategy") or "mean"} if name == "impute" else {}
            self.steps.append({"step": name, "own": True, **strategy})
        elif name == "impute":
            fill = self._filling(params.get("strategy") or "mean")
            self.steps.append({"step": name, "fill": fill})
        elif name == "tf-idf":
            self.steps.append({"step": name, "idf": self._idf()})
        elif name in ("min-max", "robust"):
            self.steps.append({"step": name, **self._between(name)})
        else:
            self.steps.append({"step": name, **self._sums(name, params)})
        self._go_on_after(name, params)

    def _declared(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what min-max scaling by declared ranges subtracts and divides by."""
        width = declared_width(params, self._numbers)
        if self.alone and self.federation.contract.categorical.get(self.clients[0]):
            # by name: only the client knows which columns its words made
            by_name = [dict(zip(self._numbers, one, strict=True)) for one in width]
            return dict(zip(SHIFTED["min-max"], by_name, strict=True))
        values = map(list, self._by_column(*width, (0.0, 1.0)))
        return dict(zip(SHIFTED["min-max"], values, strict=True))

    def _check_numbers(self, name: str) -> None:
        """Refuse columns of words and missing values, which have no declared ranges."""
        if told := unprepared(self.categories, self.missing):
            raise InvalidInput(
                f"the step {name!r} with 'low' and 'high' needs numbers without gaps; {told}. "
                "Write stores of the other columns, or leave 'low' and 'high' out."
            )

    def _noisy_sums(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return mean and scale of columns within declared ranges, with noise."""
        if self.alone:
            raise InvalidInput(
                "the step 'standardise' with noise is a sum over clients with the same columns; "
                f"client {self.clients[0]!r} has columns of its own. Leave the noise out."
            )
        federation, clients, summing = self.federation, self.clients, self._summing()
        known = Declared.of(params, self._numbers)
        low, high = self._by_column(known.low, known.high, (0.0, HEIGHT))
        declared = Declared(low, high, known.multiplier)
        counts = summing.sum(federation.on_clients(steps.own_count, clients=clients))
        n = federation.publish(steps.sample_total, counts).n_samples
        shares = summing.n_noise_shares
        parts = federation.on_clients(noisy_moments, self.steps, declared, shares, clients=clients)
        total = summing.sum(parts, max_abs=declared.bound(n, shares))
        told = federation.publish(noisy_scales, total, declared, n)
        scales = scale_of(told.scales, np.zeros(len(low)), self.made_of)
        return {"mean": told.means.tolist(), "scale": scales.tolist()}

    @property
    def _numbers(self) -> list[str]:
        """The columns that are not made of words."""
        made_of = self.made_of or ("",) * len(self.columns)
        return [name for name, of in zip(self.columns, made_of, strict=True) if not of]

    def _by_column(
        self, first: Sequence[float], second: Sequence[float], of_words: tuple[float, float]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Expand pairs of the columns of numbers to all columns."""
        pairs = iter(zip(first, second, strict=True))
        made_of = self.made_of or ("",) * len(self.columns)
        found = [of_words if of else next(pairs) for of in made_of]
        return tuple(pair[0] for pair in found), tuple(pair[1] for pair in found)

    def _standardise_words(self, params: Mapping[str, Any]) -> None:
        """Standardise the columns made of words over all clients, and no others."""
        found = self._sums("standardise", params)
        of_numbers = ["" if of else "number" for of in self.made_of]
        mean, scale = but_for_words(of_numbers, found["mean"], found["scale"])
        step = {"step": "standardise", "mean": mean.tolist(), "scale": scale.tolist()}
        self.steps.append(step)

    def _idf(self) -> list[float]:
        """Return the weight of each column's word, by how many samples have it."""
        counts = self.federation.on_clients(steps.counts_of_words, self.steps, clients=self.clients)
        total = self._summing().sum(counts, max_abs=_MOST)
        told = self.federation.publish(steps.told_counts, total)
        if told.withheld:
            self.warnings.append(
                f"{told.withheld} columns have a word in fewer samples or clients than a sum is "
                "opened of, and 'tf-idf' weighs it as one that no sample has: the most."
            )
        weights = idf_of(told.counts, told.n_samples, self.made_of)
        return [float(weight) for weight in weights]

    def _tell_of_zeros(self) -> None:
        """Warn of samples that are all zeros."""
        counts = self.federation.on_clients(steps.zero_rows, self.steps, clients=self.clients)
        total = self._summing().sum(counts, max_abs=_MOST)
        self.warnings += _told_of_zeros(self.federation.publish(steps.zero_total, total).n_samples)

    def _go_on_after(self, name: str, params: Mapping[str, Any]) -> None:
        if name == "impute":
            self.missing = False
        if name == "one-hot":
            words = {name: tuple(own) for name, own in self.categories.items()}
            made = Columns(self.columns, words, self.missing, "", self.made_of).one_hot()
            self.columns, self.made_of, self.categories = made.names, made.made_of, {}
        if name == "pca":
            self.made_of = ()
            self.columns = tuple(f"pc{i + 1}" for i in range(params["n_components"]))

    def _agree_on_words(self) -> None:
        if not self.categories or any(self.categories.values()):
            return
        shared, withheld = shared_words(
            self.federation,
            self._summing(),
            self.steps,
            tuple(self.categories),
            self.clients,
            smallest=self.smallest,
        )
        self._counts = {name: [one.count for one in words] for name, words in shared.items()}
        self.categories = {name: [one.word for one in words] for name, words in shared.items()}
        self.steps.append({"step": "categories", "words": dict(self.categories)})
        self.warnings += [
            f"{n} words of column {name!r} are of too few clients, as sites ask for, and count as "
            "others."
            for name, n in withheld.items()
            if n
        ]
        args = (self.federation, self._summing(), self.steps, self.categories, self.clients)
        self.warnings += words_of_one(*args)

    def _filling(self, strategy: str) -> list[float]:
        """Return the value that replaces missing ones, by column."""
        numbers = [name for name in self.columns if name not in self.categories]
        if strategy == "most-frequent" and numbers:
            shared, _ = shared_words(
                self.federation,
                self._summing(),
                self.steps,
                numbers,
                self.clients,
                smallest=self.smallest,
                most_frequent=True,
            )
            found = {name: min(float(one.word) for one in own) for name, own in shared.items()}
        else:
            by_column = self._medians() if strategy == "median" else self._means()[0]
            found = dict(zip(self.columns, self._known(by_column).tolist(), strict=True))
        for name in self.categories:
            found[name] = float(np.argmax(self._counts[name]))
        return [found[name] for name in self.columns]

    def _medians(self) -> np.ndarray:
        return self._quantiles([0.5])[:, 0]

    def _quantiles(self, levels: Sequence[float]) -> np.ndarray:
        return quantiles(self.federation, self._summing(), self.steps, levels, self.clients)

    def _between(self, name: str) -> dict[str, list[float]]:
        """Return the values that min-max and robust scaling subtract and divide by."""
        levels = [0.0, 1.0] if name == "min-max" else [0.25, 0.5, 0.75]
        found = self._quantiles(levels)
        self._known(found[:, 0])
        centre = found[:, 0 if name == "min-max" else 1]
        width = width_of(found[:, -1] - found[:, 0])
        values = but_for_words(self.made_of, centre, width)
        return dict(zip(SHIFTED[name], map(np.ndarray.tolist, values), strict=True))

    def _known(self, values: np.ndarray) -> np.ndarray:
        """Return values of columns; refuse columns without one."""
        if np.isnan(values).any():
            empty = self.columns[int(np.isnan(values).argmax())]
            samples, clients = self.federation.smallest
            few = f", or fewer than {samples} of {clients} clients, of which no sum is opened"
            raise InvalidInput(
                f"column {empty!r} has no value at any client{few * (samples > 1)}. Leave it out."
            )
        return values

    def _summing(self) -> Aggregation:
        return MaskedSum(self.federation, clients=self.clients)

    def _moments(self) -> ColumnMoments:
        return ColumnMoments(self.federation, self._summing(), self.steps, self.clients)

    def _means(self) -> tuple[np.ndarray, Local]:
        """Return the mean of each column, at the caller and at the server."""
        fitted, _ = self._moments().means()
        return self.federation.publish(fitted).means, fitted

    def _sums(self, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a step that needs sums over columns."""
        federation = self.federation
        plain, fitted = self._means()
        mean = self._known(plain).tolist()
        step = steps.squares if name == "standardise" else steps.covariances
        total, farthest, _ = self._moments().about(fitted, step)
        if name == "standardise":
            scales = federation.publish(steps.scales_of, total, fitted, farthest, self.made_of)
            return {"mean": mean, "scale": scales.scales.tolist()}
        k = params["n_components"]
        found = federation.publish(steps.components_of, total, farthest, n_components=k)
        return {"mean": mean, "components": found.components.tolist()}


def normalise_over_columns(federation: Federation, fittings: Sequence[Fitting]) -> list[str]:
    """Fit ``normalise`` where each client has columns of the same samples; return warnings."""
    for fitting in fittings:
        if told := unprepared(fitting.categories, fitting.missing):
            raise InvalidInput(
                f"the step 'normalise' needs numbers without gaps; {told}. Put 'impute' and "
                "'one-hot' before it."
            )
    so_far = fittings[0].steps
    if not all(alike_for_all.holds(fitting.steps, Announced()) for fitting in fittings):
        raise InvalidInput(
            "the step 'normalise' over the columns of several clients can follow steps without "
            "numbers, not 'clip' or declared ranges, which could make all columns but one vanish: "
            "lengths would be that one's values. Put it before them."
        )
    digests = federation.ask(sample_digests, digest_keys(federation))
    federation.wait(federation.on_server(linked_samples, digests))
    parts = federation.on_clients(steps.squared_lengths, so_far)
    lengths = federation.publish(steps.row_lengths, MaskedSum(federation).sum(parts)).lengths
    for fitting in fittings:
        fitting.steps.append({"step": "normalise", "lengths": lengths.tolist()})
    return _told_of_zeros(int((lengths == 0.0).sum()))


def _told_of_zeros(n: int) -> list[str]:
    if not n:
        return []
    return [
        f"{n:,} samples have zeros alone, which 'normalise' cannot bring to length 1: they stay "
        "zeros, as far from every other sample."
    ]
