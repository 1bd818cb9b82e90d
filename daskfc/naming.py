"""Names as people write them: in other letters' case, without hyphens, or another library's."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

# What scikit-learn and others say, as `_plain` writes it, and what it is called here.
_OTHER_WORDS = {
    "agglomerative": "hierarchical",
    "agglomerativeclustering": "hierarchical",
    "averagelinkage": "hierarchical",
    "completelinkage": "hierarchical",
    "spectralclustering": "spectral",
    "pam": "k-medoids",
    "gmm": "gaussian-mixture",
    "cmeans": "fuzzy-c-means",
    "fcm": "fuzzy-c-means",
    "kernelkmeans": "FederatedKernelKMeans",
    "scale": "standardise",
    "scaler": "standardise",
    "standardscaler": "standardise",
    "zscore": "standardise",
    "minmaxscaler": "min-max",
    "robustscaler": "robust",
    "normaliser": "normalise",
    "onehotencoder": "one-hot",
    "getdummies": "one-hot",
    "imputer": "impute",
    "simpleimputer": "impute",
    "fillna": "impute",
    "k": "n_clusters",
    "ncomponents": "n_clusters",
    "seed": "random_state",
    "adjustedrandscore": "ari",
    "adjustedrandindex": "ari",
    "normalisedmutualinfoscore": "nmi",
    "accuracy": "acc",
    "accuracyscore": "acc",
    "f1score": "f1",
}


def _plain(name: str) -> str:
    """Return a name without case, hyphens and the like, and without American spelling."""
    return re.sub(r"[\W_]+", "", name).casefold().replace("iz", "is")


def known_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that differs in case, hyphens or -ize at most, else the name itself."""
    names = list(known)
    if name in names or not isinstance(name, str):
        return name
    return next((one for one in names if _plain(one) == _plain(name)), name)


def correction(name: str, known: Iterable[str], otherwise: str = "Correct the name.") -> str:
    """Return "Did you mean ...?" with the nearest known name, or else another way out."""
    names = {_plain(one): one for one in known if one}
    meant = _plain(str(name))
    other = _plain(_OTHER_WORDS.get(meant, ""))
    near = [other] if other in names else get_close_matches(meant, names, 1, 0.7)
    return f"Did you mean {names[near[0]]!r}?" if near else otherwise
