"""Requests for runs, which a site's policy judges, and refusals of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from daskfc.checks import sentence_of
from daskfc.errors import InvalidInput, PolicyRefused
from daskfc.site.amounts import BETWEEN_SITES, Smallest

TASKS = ("opening", "pseudonyms", "preparation", "profiles", "labels")
"""What runs are for besides methods: who takes part, names of samples, and so on."""

COUNTED = ("preparation", "profiles")
"""Tasks that compute with samples, and are asked and counted as methods are."""


@dataclass(frozen=True)
class RunRequest:
    """One start of one method, as its submitter describes it to a site.

    Parameters
    ----------
    method : str
        Its name; one of `TASKS` where no method runs.
    submitter : str, optional
        Who asks, as the certificate says; None where there is none.
    package, version : str
        The installed package that the method is of, and its version; "" where there is none.
    parameters : mapping
        All parameters of the method but its ``random_state``, those left at their default too.
    n_clients : int, optional
        How many take part, where it is known.
    allow_raw : bool
        Whether messages with protection "raw" would leave.
    clear_ids : bool
        Whether the caller would learn the ids of the stores.
    masked : bool
        Whether it is known to add up the clients' arrays under masks.
    preparation : tuple of mapping
        Steps that features go through, each ``{name: parameters}``.
    stores : tuple of str
        URLs that would be opened besides the party's own store.
    columns : tuple of str, optional
        The columns that are used; None for all that the store has.
    smallest : Smallest
        The smallest part of the samples whose sums are opened.
    trusted : bool
        Whether parties run beside workers of a Dask cluster whose operators can read what the
        parties hold.

    Notes
    -----
    Privacy: a request holds what the submitter claims. A party checks the run against it, and reads
    only steps of installed packages, in versions that the policy allows.

    Examples
    --------
    >>> from daskfc.site import RunRequest
    >>> asked = RunRequest("OmniFC", submitter="alice", parameters={"n_clusters": 3})
    >>> RunRequest.of_json(asked.as_json()) == asked
    True
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    method: str
    submitter: str | None = None
    package: str = "daskfc"
    version: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    n_clients: int | None = None
    allow_raw: bool = False
    clear_ids: bool = False
    masked: bool = False
    preparation: tuple[Mapping[str, Any], ...] = ()
    stores: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    smallest: Smallest = BETWEEN_SITES
    trusted: bool = False

    @property
    def is_task(self) -> bool:
        """Whether no method runs."""
        return self.method in TASKS

    @property
    def is_counted(self) -> bool:
        """Whether it is one of the starts that a policy's ``runs`` limits."""
        return not self.is_task or self.method in COUNTED

    def as_json(self) -> str:
        """Return one line of JSON, its keys in order; infinite numbers are ``Infinity``."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(told, sort_keys=True, ensure_ascii=False, default=_plain)

    @classmethod
    def of_json(cls, text: str) -> "RunRequest":
        """Return the request of a text of `as_json`; InvalidInput for any other."""
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            raise InvalidInput(sentence_of(error, "the request of a run")) from None


def _plain(value: Any) -> Any:
    """Return the JSON form of another object: NumPy's numbers, or its name and parameters."""
    if hasattr(value, "name") and hasattr(value, "params"):
        return {value.name: value.params}
    return value.tolist() if hasattr(value, "tolist") else type(value).__name__


_ADAPTER: TypeAdapter[RunRequest] = TypeAdapter(RunRequest)


@dataclass(frozen=True)
class Refusal:
    """A rule that refuses, and the reason.

    Parameters
    ----------
    rule : str
        The path of its key, such as ``methods.FedSC.noise``.
    sentence : str
        For the site: what was asked, and what the rule says.

    Examples
    --------
    >>> from daskfc.site import Refusal
    >>> Refusal("raw", "central sends raw data; the policy says raw: never.").told
    "a site refuses this by its rule 'raw'. Ask that site, or change what is asked."
    """

    rule: str
    sentence: str

    @property
    def told(self) -> str:
        """The sentence for the submitter, which names the rule and nothing else."""
        return str(self.error())

    def error(self, party: str | None = None) -> PolicyRefused:
        """Return the error to raise, which names the rule, and the party that refuses."""
        who = "a site" if party is None else f"party {party!r}"
        told = (
            f"{who} refuses this by its rule {self.rule!r}. Ask that site, or change what is asked."
        )
        return PolicyRefused(told, rule=self.rule, sentence=self.sentence)
