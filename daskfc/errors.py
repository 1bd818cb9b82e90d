"""Errors of daskfc, of one sentence each: what, whose, the rule, what was got, the fix."""

__all__ = [
    "ENDS_A_RUN",
    "ClusterError",
    "DaskfcError",
    "DeadlineError",
    "DecodingError",
    "EgressRefused",
    "InvalidInput",
    "LedgerError",
    "NotAdmitted",
    "OverflowRefused",
    "PartyError",
    "PolicyRefused",
    "PrivacyError",
    "ResourceRefused",
    "RunHeld",
    "StoreAway",
    "StoreError",
]


class DaskfcError(Exception):
    """Base of every error that daskfc raises on purpose."""


class InvalidInput(DaskfcError, ValueError):
    """A parameter, a file or data that breaks a stated rule; nothing was started."""


class StoreError(InvalidInput):
    """A client's store that is missing, half-written, corrupt or of another layout."""


class StoreAway(StoreError):
    """A place of stores or files, off this machine, that does not answer at this moment."""


class OverflowRefused(InvalidInput):
    """Values too large for the residue system; they would wrap around silently."""


class ResourceRefused(InvalidInput):
    """A run whose computed need of memory or disk is more than a party has."""


class RunHeld(InvalidInput):
    """A run that another process carries out at this moment."""


class PrivacyError(DaskfcError):
    """Something would leave a party that may not."""


class PrivacyWarning(UserWarning):
    """A fit revealed more to a party than its settings suggest."""


class EgressRefused(PrivacyError):
    """A value that is no declared message was asked of a party; nothing was sent."""


class PolicyRefused(PrivacyError):
    """A request that a site's policy or its record of earlier runs forbids; nothing was sent.

    `told` is for the requester, and names only the rule; `rule`, the path of its key, and
    `sentence`, for the site itself, stay in the process: a copy that is pickled has neither.
    """

    def __init__(self, told: str, *, rule: str = "", sentence: str = "") -> None:
        super().__init__(told)
        self.rule = rule
        self.sentence = sentence

    def __reduce__(self) -> tuple[type["PolicyRefused"], tuple[str]]:
        return type(self), (str(self),)


class LedgerError(DaskfcError):
    """A party could not write to its ledger or its state; nothing was sent."""


ENDS_A_RUN = (EgressRefused, LedgerError, PolicyRefused)
"""What a party refuses to send ends the run everywhere, at once."""


class DecodingError(DaskfcError):
    """Answers of the evaluators that contradict each other beyond what the code can correct."""


class ClusterError(DaskfcError):
    """A scheduler that cannot be reached, or a worker that a run needs and does not find."""


class NotAdmitted(ClusterError):
    """A certificate that the other side refuses, or TLS on one side only: retrying is no help."""


class DeadlineError(ClusterError):
    """A party that did not answer within its deadline."""


class PartyError(DaskfcError):
    """An error in a step at a party, without any value of that party's data.

    Parameters
    ----------
    party : str
        Name of the party whose step failed.
    step : str
        Name of the step.
    kind : str
        The exception's type, or daskfc's own sentence, which never holds private values.

    Attributes
    ----------
    error_type : str
        Name of daskfc's error that the sentence is from; empty for any other exception.
    """

    def __init__(self, party: str, step: str, kind: str) -> None:
        super().__init__(party, step, kind)
        self.party = party
        self.step = step
        self.kind = kind
        self.error_type = ""

    def __str__(self) -> str:
        return f"step {self.step!r} of party {self.party!r} failed: {self.kind}"
