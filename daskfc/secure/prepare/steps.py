"""Steps of clients and server to fit a preparation: sums over columns, scaled for precision."""

from collections.abc import Mapping, Sequence

import numpy as np

from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import takes
from daskfc.linalg import squared_row_norms
from daskfc.secure.prepare.before import alike_for_all, no_weights
from daskfc.secure.prepare.messages import (
    ColumnMagnitudes,
    CommonMagnitudes,
    CountsOfWords,
    FittedComponents,
    FittedMeans,
    FittedScales,
    RowLengths,
    SampleTotal,
    ZeroRows,
)
from daskfc.secure.sums import Total
from daskfc.secure.sums.few import Held
from daskfc.stores import ClientStore
from daskfc.stores.store.fitted_steps import FittedStep
from daskfc.stores.store.prepared import PreparedStore, numbers_of, scale_of

_DIGITS = 1e9  # ours: a square of a length is so many times its error
MAGNITUDES = 4  # ours: by other steps or means, in a start; one for each step that is fitted
_NOTHING = -1074  # for a column of zeros: the least power of two in float64


@takes(so_far=no_weights)
def column_magnitudes(
    data: ClientStore,
    so_far: Sequence[FittedStep],
    means: FittedMeans | None,
    site: SiteRules = FREE,
) -> ColumnMagnitudes:
    """Report the largest magnitude of each column, or of its distance from the mean."""
    shift = 0.0 if means is None else means.means
    # each tells whether a value is above one of the caller's own, or of the server's
    use = f"magnitudes of columns{' about means' * (means is not None)}"
    site.once().hold_few(use, repr((so_far, np.asarray(shift).tolist())).encode(), MAGNITUDES)
    store = PreparedStore.of(data, so_far)
    largest = np.zeros(store.n_features)
    for _, block in store.blocks():
        distances = np.abs(numbers_of(store, block) - shift)
        np.fmax(largest, np.fmax.reduce(distances, axis=0, initial=0.0), out=largest)
    return ColumnMagnitudes(powers_above(largest))


def powers_above(largest: np.ndarray) -> np.ndarray:
    """Return the least powers of two, int16, that are not below magnitudes, up to rounding."""
    powers = np.full(largest.shape, _NOTHING)
    seen = largest > 0
    powers[seen] = np.ceil(np.log2(largest[seen]))
    return powers.astype(np.int16)


def common_magnitudes(parts: Mapping[str, ColumnMagnitudes]) -> CommonMagnitudes:
    """Send the clients the largest of all magnitudes."""
    return CommonMagnitudes(np.max([part.powers for part in parts.values()], axis=0))


def own_count(data: ClientStore) -> np.ndarray:
    """Return the client's number of samples, (1, 1)."""
    return np.array([[float(data.n_samples)]])


def check_shape(total: Total, *, fits: bool) -> None:
    """Refuse (PrivacyError) to tell a sum of other columns, words or ranges than a step tells of.

    Those that need enough samples are told by steps that look for them.
    """
    if not fits:
        raise PrivacyError(
            f"a step of a preparation was given a sum of shape {total.values.shape}, of which it "
            "tells nothing. Nothing was told; prepare by daskfc.Prepare."
        )


def sample_total(total: Total) -> SampleTotal:
    """Report to the caller the number of all samples."""
    check_shape(total, fits=total.values.shape == (1, 1))
    return SampleTotal(round(float(total.values[0, 0])))


@takes(so_far=no_weights)
def sums(
    data: ClientStore, so_far: Sequence[FittedStep], magnitudes: CommonMagnitudes
) -> np.ndarray:
    """Return each column's sum in units of its magnitude, number of values, and 1 if it has any."""
    store = PreparedStore.of(data, so_far)
    found = np.zeros((3, store.n_features))
    for _, block in store.blocks():
        scaled = np.ldexp(numbers_of(store, block), -magnitudes.powers.astype(int))
        found[:2] += np.nansum(scaled, axis=0), (~np.isnan(block)).sum(axis=0)
    found[2] = found[1] > 0
    return found


def means_of(total: Total, magnitudes: CommonMagnitudes, site: SiteRules = FREE) -> FittedMeans:
    """Report each column's mean; NaN if values or clients are fewer than the run requires."""
    found, (counts, holders) = total.values[0], np.rint(total.values[1:]).astype(np.int64)
    counts = np.where(Held(counts, holders).enough(site.smallest), counts, 0)
    plain = np.ldexp(found, magnitudes.powers.astype(int))
    return FittedMeans(np.divide(plain, counts, out=np.full(len(plain), np.nan), where=counts > 0))


@takes(so_far=no_weights)
def squares(
    data: ClientStore,
    so_far: Sequence[FittedStep],
    means: FittedMeans,
    magnitudes: CommonMagnitudes,
) -> np.ndarray:
    """Return sums of squared distances from the mean, in units of their magnitude's square."""
    store = PreparedStore.of(data, so_far)
    found = np.zeros((2, store.n_features))
    for _, block in store.blocks():
        shifted = numbers_of(store, block) - means.means
        scaled = np.ldexp(shifted, -magnitudes.powers.astype(int))
        found += np.nansum(np.square(scaled), axis=0), (~np.isnan(block)).sum(axis=0)
    return found


def scales_of(
    total: Total, means: FittedMeans, magnitudes: CommonMagnitudes, made_of: Sequence[str]
) -> FittedScales:
    """Report the deviation of each column, one for all that are made of one column of words."""
    check_shape(total, fits=len(total.values) == 2)
    return FittedScales(scale_of(deviations_of(total, magnitudes), means.means, made_of))


def deviations_of(total: Total, magnitudes: CommonMagnitudes) -> np.ndarray:
    """Return the deviation of each column, whose square may be no number, from `squares`."""
    found, counts = total.values[0], np.maximum(np.rint(total.values[1]), 1.0)
    deviations = np.sqrt(np.maximum(found, 0.0) / counts)
    return np.asarray(np.ldexp(deviations, magnitudes.powers.astype(int)))


@takes(so_far=no_weights)
def zero_rows(data: ClientStore, so_far: Sequence[FittedStep]) -> np.ndarray:
    """Return the number of samples that are all zeros, (1, 1)."""
    blocks = PreparedStore.of(data, so_far).blocks()
    return np.array([[float(sum((~block.any(axis=1)).sum() for _, block in blocks))]])


def zero_total(total: Total) -> ZeroRows:
    """Report to the caller the number of samples that are all zeros."""
    check_shape(total, fits=total.values.shape == (1, 1))
    return ZeroRows(round(float(total.values[0, 0])))


@takes(so_far=no_weights)
def counts_of_words(data: ClientStore, so_far: Sequence[FittedStep]) -> np.ndarray:
    """Return how many samples have a value above 0 in each column, 1 if any, and all samples."""
    store = PreparedStore.of(data, so_far)
    found = np.zeros((3, store.n_features))
    for _, block in store.blocks():
        found[0] += (block > 0.0).sum(axis=0)
    found[1], found[2] = found[0] > 0, store.n_samples
    return found


def told_counts(total: Total, site: SiteRules = FREE) -> CountsOfWords:
    """Report in how many samples words are; 0 of words of fewer than a sum must have."""
    found, clients, n = np.rint(total.values).astype(np.int64)
    known = np.where(Held(found, clients).enough(site.smallest), found, 0)
    return CountsOfWords(known, int(n.max(initial=0)), int(((found > 0) & (known == 0)).sum()))


@takes(so_far=alike_for_all)
def squared_lengths(data: ClientStore, so_far: Sequence[FittedStep]) -> np.ndarray:
    """Return the squared length of each sample in the client's own columns, (n, 1)."""
    found = np.empty((data.n_samples, 1))
    for start, block in PreparedStore.of(data, so_far).blocks():
        squares = squared_row_norms(block)
        if not (np.isfinite(squares) & ((squares > 0.0) | ~block.any(axis=1))).all():
            raise InvalidInput(
                "the step 'normalise' needs features whose squares are numbers; some are too "
                "large or too small. Put 'standardise' before it."
            )
        found[start : start + len(block), 0] = squares
    return found


def row_lengths(total: Total) -> RowLengths:
    """Report to the caller the length of each sample over all clients' columns, or refuse."""
    n, d = total.values.shape
    check_shape(total, fits=n > 3 and d == 1)  # where there is one column, other sums have three
    squares, error = total.values[:, 0], total.error_bound
    known = squares > 2.0 * error
    if (squares[known] < _DIGITS * error).any():
        raise InvalidInput(
            "the step 'normalise' over the columns of several clients needs samples whose lengths "
            "differ less: the sum over clients has too few digits for the shortest. Put 'log' or "
            "'standardise' before it."
        )
    return RowLengths(np.sqrt(np.where(known, squares, 0.0)))


@takes(so_far=no_weights)
def covariances(
    data: ClientStore,
    so_far: Sequence[FittedStep],
    means: FittedMeans,
    magnitudes: CommonMagnitudes,
) -> np.ndarray:
    """Return sums of products of two columns' distances from their means, (d + 1, d)."""
    store = PreparedStore.of(data, so_far)
    d = store.n_features
    found = np.zeros((d + 1, d))
    for _, block in store.blocks():
        scaled = np.ldexp(block - means.means, -magnitudes.powers.astype(int))
        found[:d] += scaled.T @ scaled
    found[d] = store.n_samples
    return found


def components_of(
    total: Total, magnitudes: CommonMagnitudes, *, n_components: int
) -> FittedComponents:
    """Report the directions in which the samples vary most; refuse more than there are columns."""
    found, d = total.values, total.values.shape[1]
    if n_components > d:
        raise InvalidInput(
            f"'n_components' of the step 'pca' must be at most the number of columns, {d}; got "
            f"{n_components}. Lower it."
        )
    powers = magnitudes.powers.astype(int)
    S = np.ldexp(found[:d], powers[:, None] + powers[None, :]) / max(round(found[d, 0]) - 1, 1)
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    kept = np.argsort(values)[::-1][:n_components]
    components = vectors[:, kept].T
    largest = np.abs(components).argmax(axis=1)  # signs as scikit-learn's
    components *= np.sign(components[np.arange(len(kept)), largest])[:, None]
    return FittedComponents(components, np.maximum(values[kept], 0.0))
