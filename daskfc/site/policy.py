"""A site's policy: what runs it takes part in, as a file at the site that no submitter can loosen.

A key that a file leaves out has the value of ``Policy.default(loopback=False)``. A rule never
allows what the rest of daskfc refuses.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal, Self

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion
from pydantic import model_validator

from daskfc.checks import Section, checked
from daskfc.site.amounts import Budget, Groups, Maskers, Rate, Samples, Upload
from daskfc.site.hours import Hours
from daskfc.site.limits import Methods, Names, Packages, value_at
from daskfc.site.packages import modules_of
from daskfc.site.prefixes import is_below
from daskfc.site.request import Refusal, RunRequest
from daskfc.yaml_files import read_mapping

_OWN = "daskfc"  # the package whose methods need no permission
_MANY = 5  # ours: names in a sentence


class Policy(Section):
    """What a site takes part in.

    Parameters
    ----------
    raw : {"never", "allow"}
        Whether messages with protection "raw" may leave.
    methods : "any", list of str, or {str: {str: limit}}
        Methods that may run. A limit is on one parameter, named by a dotted path: ``required``, a
        value, a list of values, or ``{min: ..., max: ...}``. The attribute is None for any.
    trusted : {"never", "allow"}
        Whether the party may take part beside a worker of a Dask cluster that others run, who can
        then read what it holds.
    submitters : "any" or list of str
        Who may begin runs.
    stores : "any" or list of str
        URLs below which stores besides the party's own may be opened, by ``predict``.
    columns : "any" or list of str
        Columns that may be used at all.
    samples : Samples
        The fewest samples that the party's store must have.
    maskers : Maskers
        The fewest clients of a masked sum, and the share of them that must stay for its result.
        Its ``differ_by`` is the fewest by which the clients of two sums may differ.
    groups : Groups
        The smallest groups, words and columns whose sums may be opened.
    budget : Budget, optional
        Epsilon and delta for the life of each data set, over all runs.
    hours : Hours, optional
        When runs may begin.
    runs : Rate, optional
        How many starts there may be in an hour, a day or a week; preparations and profiles count.
        Its ``longest``, as ``12h``, is the time after which the party leaves a run.
    upload : int, optional
        The most bytes of content that a run may send from here; written ``2 GB``.
    ids : {"never", "allow"}
        Whether the caller may learn clear sample ids.
    labels : {"never", "allow"}
        Whether the caller may learn true labels, from which scores are computed.
    words : {"never", "allow"}
        Whether the caller may learn which words of columns the party's samples have, of those that
        enough samples of all clients share.
    preparation : {"never", "noised", "allow"}, optional
        Whether the caller may learn sums that prepare features, or those alone that bear noise.
        Where it is left out: noised if the policy has a budget, never if it asks for noise
        otherwise, else allow. "noised" needs a budget.
    profiles : {"never", "allow"}, optional
        Whether the caller may learn means and counts of clusters of samples that the caller names.
        Where it is left out: never if the policy asks for noise, else allow.
    kept : {"never", "allow"}
        Whether the server may keep, beyond a run, what the next fit starts from (``start: last``).
    gaps : {"never", "allow"}
        Whether OmniFC may compare samples by some columns alone, where they lack others.
    errors : {"sentences", "codes"}
        What the submitter gets of an error: daskfc's sentence, or only its kind.
    packages : "any" or list of str
        Installed packages besides daskfc whose methods may run, with versions as pip writes them.

    Notes
    -----
    Privacy: a budget counts noise. It does not forbid methods that add none; limits on ``methods``
    do, as ``FedSC: {noise: required}``.

    Examples
    --------
    >>> from daskfc.site import Policy, RunRequest
    >>> policy = Policy(methods=["OmniFC"], samples={"at_least": 100})
    >>> asked = RunRequest("FedSC", n_clients=5)
    >>> said = policy.refusals(asked, now=None, runs_before=0, n_samples=60, columns=None)
    >>> [refusal.rule for refusal in said]
    ['methods', 'samples.at_least']
    """

    raw: Literal["never", "allow"] = "never"
    trusted: Literal["never", "allow"] = "never"
    methods: Methods = None
    submitters: Names = "any"
    stores: Names = ()
    columns: Names = "any"
    samples: Samples = Samples()
    maskers: Maskers = Maskers()
    groups: Groups = Groups()
    budget: Budget | None = None
    hours: Hours | None = None
    runs: Rate | None = None
    upload: Upload | None = None
    ids: Literal["never", "allow"] = "never"
    labels: Literal["never", "allow"] = "never"
    words: Literal["never", "allow"] = "never"
    preparation: Literal["never", "noised", "allow"] | None = None
    profiles: Literal["never", "allow"] | None = None
    kept: Literal["never", "allow"] = "allow"
    gaps: Literal["never", "allow"] = "never"
    errors: Literal["sentences", "codes"] = "sentences"
    packages: Packages = ()

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.preparation == "noised" and self.budget is None:
            raise ValueError("'preparation: noised' needs a 'budget': else any epsilon would do")
        return self

    @classmethod
    def default(cls, loopback: bool) -> "Policy":
        """Return the policy of a site that gives no file; on the loopback address it allows all.

        Examples
        --------
        >>> from daskfc.site import Policy
        >>> Policy.default(loopback=False).raw, Policy.default(loopback=True).raw
        ('never', 'allow')
        """
        if not loopback:
            return cls()
        nobody = Maskers.model_construct(at_least=1, threshold=Fraction(0))  # no file may say so
        return cls(
            raw="allow",
            trusted="allow",
            stores="any",
            maskers=nobody,
            groups=Groups(samples=1, clients=1, groupings="any"),
            ids="allow",
            labels="allow",
            words="allow",
            gaps="allow",
            packages="any",
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Read a policy's file, YAML in UTF-8; InvalidInput for any other content."""
        keys = "keys such as 'raw' and 'methods'; 'daskfc policy init' writes one"
        return cls.of(read_mapping(path, "policy", keys=keys), os.fspath(path))

    @classmethod
    def of(cls, content: dict[Any, Any], source: str = "the policy") -> "Policy":
        """Return the policy of a file's content; `source` names it in errors.

        Examples
        --------
        >>> from daskfc.site import Policy
        >>> Policy.of({"raw": "sometimes"})
        Traceback (most recent call last):
        ...
        daskfc.errors.InvalidInput: the policy: key 'raw': must be 'never' or 'allow'; \
got 'sometimes'. Correct the value.
        """
        return checked(cls, content, source)

    # -- before a run -------------------------------------------------------------------------

    def refusals(
        self,
        request: RunRequest,
        *,
        now: datetime | None,
        runs_before: int | None,
        n_samples: int | None,
        columns: Sequence[str] | None,
        own_store: str | None = None,
    ) -> tuple[Refusal, ...]:
        """Return every rule that refuses a run, in the order of the keys; none when it may begin.

        Parameters
        ----------
        request : RunRequest
            The run that is requested.
        now : datetime, optional
            With its time zone. An argument that is None is unknown, and its rule is not checked; a
            party knows all four.
        runs_before : int, optional
            Starts within the last ``runs.per``.
        n_samples : int, optional
            Of the party's store.
        columns : sequence of str, optional
            Of the party's store.
        own_store : str, optional
            URL of the party's own store, which needs no permission.
        """
        found = [*self._about_method(request), *self._about_data(request, columns, own_store)]

        def refuse(rule: str, sentence: str) -> None:
            found.append(Refusal(rule, sentence))

        if request.trusted and self.trusted == "never":
            said = (
                "whoever runs the Dask cluster could read what is here; the policy says trusted: "
            )
            refuse("trusted", f"{said}never.")
        if self.submitters != "any" and request.submitter not in self.submitters:
            who = "nobody in particular" if request.submitter is None else repr(request.submitter)
            refuse("submitters", f"{who} asks; the policy names {_few(self.submitters)}.")
        if n_samples is not None and n_samples < self.samples.at_least:
            least = self.samples.at_least
            refuse("samples.at_least", f"the store has {n_samples:,} samples, below {least:,}.")
        n_clients = request.n_clients
        if request.masked and n_clients is not None and n_clients < self.maskers.at_least:
            refuse(
                "maskers.at_least",
                f"{request.method} adds up arrays of {n_clients} clients under masks; the policy "
                f"asks for at least {self.maskers.at_least}.",
            )
        for asked, key in zip(request.smallest, ("samples", "clients"), strict=True):
            least = getattr(self.groups, key)
            if request.is_counted and asked < least:
                told = f"{request.method} opens sums of {asked} {key}; the policy asks for {least}."
                refuse(f"groups.{key}", told)
        if now is not None and self.hours is not None and not self.hours.hold(now):
            refuse("hours", f"it is {now:%a %H:%M %Z}; runs may begin {self.hours}.")
        counted = self.runs if request.is_counted else None
        if runs_before is not None and counted is not None and runs_before >= counted.at_most:
            refuse(
                "runs.at_most",
                f"{runs_before} runs began within the last {counted.per}; the policy lets at "
                f"most {counted.at_most}.",
            )
        return tuple(found)

    def _about_method(self, request: RunRequest) -> list[Refusal]:
        name, found = request.method, []
        if request.is_task:
            return self._about_task(request)
        if request.allow_raw and self.raw == "never":
            found.append(Refusal("raw", f"{name} sends raw data; the policy says raw: never."))
        if request.parameters.get("start") == "last" and self.kept == "never":
            told = f"{name} has the server keep what the next fit starts from"
            found.append(Refusal("kept", f"{told}; the policy says kept: never."))
        if request.parameters.get("gaps", "refuse") != "refuse" and self.gaps == "never":
            told = f"{name} compares samples by some columns alone"
            found.append(Refusal("gaps", f"{told}; the policy says gaps: never."))
        limits = {} if self.methods is None else self.methods.get(name)
        if limits is None:
            assert self.methods is not None
            found.append(Refusal("methods", f"{name} is none of {_few(tuple(self.methods))}."))
        for path, limit in (limits or {}).items():
            broken = limit.broken_by(value_at(request.parameters, path))
            if broken is not None:
                found.append(
                    Refusal(f"methods.{name}.{path}", f"the parameter {path!r} of {name} {broken}.")
                )
        noise = request.parameters.get("noise")
        rule = "budget" if self.budget is not None else "noise"
        if self.asks_for_noise and isinstance(noise, Mapping) and noise.get("delta") is None:
            told = f"the noise of {name} has no delta, so that its epsilon says nothing."
            found.append(Refusal(rule, told))
        formula = noise.get("formula", "exact") if isinstance(noise, Mapping) else "exact"
        if self.asks_for_noise and formula != "exact" and "noise.formula" not in (limits or {}):
            told = f"the noise of {name} has the formula {formula!r}, whose epsilon is not exact."
            found.append(Refusal(rule, told))
        if not self._takes_package(request.package, request.version):
            what = f"{request.package} {request.version}".strip()
            found.append(
                Refusal(
                    "packages",
                    f"{name} is of the package {what}; the policy takes methods of daskfc"
                    f"{', ' + _few(self.packages) if self.packages else ' alone'}.",
                )
            )
        return found

    @property
    def asks_for_noise(self) -> bool:
        """Whether it has a budget, or a limit on the noise of a method."""
        limits = (path for method in (self.methods or {}).values() for path in method)
        return self.budget is not None or any(path.split(".")[0] == "noise" for path in limits)

    def may(self, task: str) -> str:
        """Return the rule for a task: "never", "noised" or "allow".

        Examples
        --------
        >>> from daskfc.site import Policy
        >>> noisy = {"budget": {"epsilon": 1, "delta": 1e-5}}
        >>> Policy().may("profiles"), Policy.of(noisy).may("profiles")
        ('allow', 'never')
        """
        noised = "never" if self.budget is None else "noised"  # without one any epsilon would do
        strict = {"preparation": noised, "profiles": "never"}[task] if task != "labels" else ""
        said: str | None = getattr(self, task)
        return said or (strict if self.asks_for_noise else "allow")

    def _about_task(self, request: RunRequest) -> list[Refusal]:
        """Return the refusal of a task, if any; tasks that reveal nothing of samples have none."""
        asked = {
            "labels": "true labels",
            "preparation": "sums that prepare features",
            "profiles": "means and counts of clusters",
        }.get(request.method)
        said = "allow" if asked is None else self.may(request.method)
        if said == "allow" or (said == "noised" and request.parameters.get("noised") is True):
            return []
        rule, way = request.method, " without noise" if said == "noised" else ""
        return [Refusal(rule, f"the caller asks for {asked}{way}; the policy says {rule}: {said}.")]

    def modules(self) -> frozenset[str]:
        """Return the top modules, daskfc's among them, whose steps and messages may be named."""
        return frozenset((_OWN, *modules_of(self.packages)))

    def _takes_package(self, package: str, version: str) -> bool:
        if self.packages == "any":
            return True
        name = canonicalize_name(package)
        known = map(Requirement, self.packages)
        named = [one for one in known if canonicalize_name(one.name) == name]
        if not named:
            return name == _OWN
        try:
            # Pre-releases count as well: the site has installed them.
            return any(
                not one.specifier or one.specifier.contains(version, prereleases=True)
                for one in named
            )
        except InvalidVersion:
            return False

    def _about_data(
        self, request: RunRequest, columns: Sequence[str] | None, own_store: str | None
    ) -> list[Refusal]:
        found = []
        for url in request.stores:
            if not self._opens(url, own_store):
                found.append(self._no_store(url))
        used = columns if request.columns is None else request.columns
        if used is not None and self.columns != "any":
            others = tuple(name for name in used if name not in self.columns)
            if others:
                found.append(
                    Refusal("columns", f"the run uses {_few(others)}, which the policy leaves out.")
                )
        if request.clear_ids and self.ids == "never":
            found.append(
                Refusal("ids", "the caller asks for clear sample ids; the policy says ids: never.")
            )
        return found

    # -- during a run -------------------------------------------------------------------------

    def check_maskers(self, n_maskers: int, threshold: int | None = None) -> None:
        """Refuse (PolicyRefused) too few clients of a masked sum, or for its result.

        Examples
        --------
        >>> from daskfc.site import Policy
        >>> Policy().check_maskers(4, threshold=3)
        >>> Policy().check_maskers(2)
        Traceback (most recent call last):
        ...
        daskfc.errors.PolicyRefused: a site refuses this by its rule 'maskers.at_least'. Ask that \
site, or change what is asked.
        """
        rule = self.maskers
        if n_maskers < rule.at_least:
            said = f"{n_maskers} clients would mask a sum; the policy asks for {rule.at_least}."
            raise Refusal("maskers.at_least", said).error()
        if threshold is not None and threshold < rule.threshold * n_maskers:
            said = (
                f"{threshold} of {n_maskers} clients would open a sum; the policy asks for "
                f"{rule.threshold} of them."
            )
            raise Refusal("maskers.threshold", said).error()

    def check_upload(self, bytes_so_far: int) -> None:
        """Refuse (PolicyRefused) more bytes of content from here in a run than ``upload``."""
        if self.upload is not None and bytes_so_far > self.upload:
            said = f"the run would send {bytes_so_far:,} bytes; the policy lets {self.upload:,}."
            raise Refusal("upload", said).error()

    def check_store(self, url: str, own_store: str | None = None) -> None:
        """Refuse (PolicyRefused) to open a store but its own that lies below no ``stores``."""
        if not self._opens(url, own_store):
            raise self._no_store(url).error()

    def _opens(self, url: str, own_store: str | None) -> bool:
        return self.stores == "any" or url == own_store or is_below(url, self.stores)

    def _no_store(self, url: str) -> Refusal:
        where = _few(self.stores) if self.stores else "nothing, for the policy names no stores"
        return Refusal("stores", f"{url} would be opened; it must lie below {where}.")


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MANY
    return ", ".join(names[:_MANY]) + (f" and {more} more" if more > 0 else "") or "nothing"
