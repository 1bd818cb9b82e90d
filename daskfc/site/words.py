"""A policy in plain words, for the people of a site."""

from importlib import resources

from dask.utils import format_time

from daskfc.site.limits import Limit, value_at
from daskfc.site.policy import Policy


def template() -> str:
    """Return the text of a commented policy file, which has the defaults."""
    return resources.files("daskfc.site").joinpath("template.yaml").read_text(encoding="utf-8")


def _listed(names: tuple[str, ...] | str, everyone: str, nobody: str) -> str:
    if isinstance(names, str):
        return everyone
    return ", ".join(names) or nobody


def _methods(policy: Policy) -> str:
    if policy.methods is None:
        return "every method"
    told = []
    for name, limits in policy.methods.items():
        rules = ", ".join(f"{path} must be {limit.rule}" for path, limit in limits.items())
        told.append(f"{name} ({rules})" if rules else name)
    return "; ".join(told) or "none: nothing may run"


def _budget(policy: Policy) -> str:
    if policy.budget is None:
        return "none: noisy releases are counted and never refused"
    told = f"epsilon {policy.budget.epsilon:g} at delta {policy.budget.delta:g} for the life of "
    told += "each data set"
    methods = {} if policy.methods is None else policy.methods
    bare = [name for name, limits in methods.items() if not _asks_noise(limits)]
    if policy.methods is None or bare:
        told += "; releases without noise are not counted, and "
        told += f"{', '.join(bare) or 'every method'} may make them"
    return told


def _asks_noise(limits: dict[str, Limit]) -> bool:
    """Return whether some limit is broken by a run whose parameter ``noise`` is null."""
    return any(
        path.partition(".")[0] == "noise"
        and limit.broken_by(value_at({"noise": None}, path)) is not None
        for path, limit in limits.items()
    )


def _maskers(policy: Policy) -> str:
    least, share = policy.maskers.at_least, policy.maskers.threshold
    told = f"a masked sum has at least {least} client{'s' * (least > 1)}"
    told += f", and {share} of them must stay where it survives that some leave"
    apart = policy.maskers.differ_by
    return told + f"; two of different clients differ by at least {apart}" * (apart > 1)


def _groups(policy: Policy) -> str:
    rule = policy.groups
    often = "any number" if rule.groupings == "any" else str(rule.groupings)
    told = f"sums are told of {rule.samples} samples of {rule.clients} clients or more"
    return f"{told}, and profiles of {often} grouping{'s' * (often != '1')} of a data set"


def _runs(policy: Policy) -> str:
    if policy.runs is None:
        return "any number"
    longest = policy.runs.longest
    left = "" if longest is None else f", and each is left after {format_time(longest)}"
    return f"at most {policy.runs.at_most} begin in one {policy.runs.per}{left}"


def _packages(policy: Policy) -> str:
    if policy.packages == "any":
        return "methods of every installed package"
    return f"methods of {' and '.join(('daskfc', *policy.packages))}"


_PREPARATION = {
    "never": "no sums that prepare features leave",
    "noised": "sums that prepare features leave with noise alone",
    "allow": "sums that prepare features may leave",
}


def in_words(policy: Policy) -> dict[str, str]:
    """Return every key of a policy's file with its rule in words."""
    upload = policy.upload
    return {
        "raw": "no raw data leave" if policy.raw == "never" else "raw data may leave",
        "trusted": "never beside a worker of a Dask cluster that others run"
        if policy.trusted == "never"
        else "also beside a worker of a Dask cluster that others run, who can read the data",
        "ids": "the caller is told pseudonyms" + (", or clear ids" * (policy.ids == "allow")),
        "labels": "no true labels leave" if policy.labels == "never" else "true labels may leave",
        "words": "nobody is told which words samples have"
        if policy.words == "never"
        else "the caller may be told which shared words samples have",
        "preparation": _PREPARATION[policy.may("preparation")],
        "profiles": "nobody is told means of clusters"
        if policy.may("profiles") == "never"
        else "the caller may be told means and counts of clusters",
        "kept": "the server keeps nothing that a later fit starts from"
        if policy.kept == "never"
        else "the server may keep what the next fit starts from",
        "gaps": "nobody is told distances over some columns alone"
        if policy.gaps == "never"
        else "distances over some columns are told of samples that lack others",
        "errors": f"the submitter is told {policy.errors}",
        "methods": _methods(policy),
        "packages": _packages(policy),
        "submitters": _listed(policy.submitters, "whoever may submit", "nobody"),
        "hours": "at any time" if policy.hours is None else f"runs begin {policy.hours}",
        "runs": _runs(policy),
        "columns": _listed(policy.columns, "all of the store", "none"),
        "stores": _listed(policy.stores, "any besides the party's own", "the party's own alone"),
        "samples": f"at least {policy.samples.at_least:,} in the store",
        "maskers": _maskers(policy),
        "groups": _groups(policy),
        "upload": "any number of bytes" if upload is None else f"at most {upload:,} bytes a run",
        "budget": _budget(policy),
    }
