"""Model inversion: an attack that rebuilds rows from the features that a client shared.

Paper       He, Zhang and Lee, ACSAC 2019, Section 5 (an inverse network, trained on pairs of inputs
            and features); X. Chen et al., ICML 2025, Section 5.3 and Fig. 3(c), which shows images
            and no number.
Notation    features  what the server saw: Z_c, Q, one-hot labels, or for comparison Z_x or Z
            known     share of the samples whose columns the attacker has, from elsewhere
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

from daskfc.arrays import Floats
from daskfc.checks import between_0_and_1, check_params, integer
from daskfc.errors import InvalidInput
from daskfc.seeds import generator, integer_seed

_HIDDEN = (256, 256)
_EPOCHS = 200


def inversion_error(
    features: ArrayLike, rows: ArrayLike, *, known: float = 0.5, seed: int = 0
) -> float:
    """Return the error of rows (n, d) that a network rebuilds from shared features (n, p).

    It is the squared error over the samples that the attacker does not know, relative to predicting
    the mean of the known ones: 0 is full recovery, 1 nothing beyond the mean. Privacy: the attacker
    sees what the server saw and has a share `known` of pairs; another network may rebuild more.
    """
    check_params(
        "inversion_error",
        {"known": known, "seed": seed},
        {"known": between_0_and_1(), "seed": integer(0)},
    )
    Z, X = np.asarray(features, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    n_known = round(known * len(X))
    if Z.ndim != 2 or X.ndim != 2 or len(Z) != len(X) or min(n_known, len(X) - n_known) < 2:
        raise InvalidInput(
            "features and rows of an attack must be tables of as many samples, two at least on "
            f"either side; got {Z.shape} and {X.shape}, {n_known} known. Give both of all samples."
        )
    order = generator(seed, "inversion").permutation(len(X))
    ours, theirs = order[:n_known], order[n_known:]
    inputs, outputs = StandardScaler().fit(Z[ours]), StandardScaler().fit(X[ours])
    network = MLPRegressor(
        hidden_layer_sizes=_HIDDEN,
        learning_rate_init=1e-3,
        max_iter=_EPOCHS,
        early_stopping=n_known >= 50,  # on a tenth of the known rows
        n_iter_no_change=20,
        random_state=integer_seed(seed, "inversion"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are limited on purpose
        network.fit(inputs.transform(Z[ours]), outputs.transform(X[ours]))
    found = network.predict(inputs.transform(Z[theirs])).reshape(len(theirs), -1)
    rebuilt: Floats = outputs.inverse_transform(found)
    wrong = float(np.sum((rebuilt - X[theirs]) ** 2))
    return wrong / float(np.sum((X[ours].mean(axis=0) - X[theirs]) ** 2))
