"""What daskfc raises: one sentence each: what, whose, the rule, what was got, the way out."""

__all__ = [
    "ENDS_A_RUN",
    "ClusterError",
    "DaskfcError",
    "DeadlineError",
    "DecodingError",
    "EgressRefused",
    "InvalidInput",
    "LedgerError",
    "OverflowRefused",
    "PartyError",
    "PrivacyError",
    "ResourceRefused",
    "StoreError",
]


class DaskfcError(Exception):
    """Base of every error that daskfc raises on purpose."""


class InvalidInput(DaskfcError, ValueError):
    """A parameter, a file or data that breaks a stated rule; nothing was started."""


class StoreError(InvalidInput):
    """A client's store that is missing, half-written, corrupt or of another layout."""


class OverflowRefused(InvalidInput):
    """Values too large for the residue system; they would wrap around silently."""


class ResourceRefused(InvalidInput):
    """A run whose computed need of memory or disk is more than a party has."""


class PrivacyError(DaskfcError):
    """Something would leave a party that may not."""


class EgressRefused(PrivacyError):
    """A value that is no declared message was asked of a party; nothing was sent."""


class LedgerError(DaskfcError):
    """A message that its sender could not write down in its ledger; it was not sent."""


ENDS_A_RUN = (EgressRefused, LedgerError)
"""What a party refuses to send ends the run everywhere, at once."""


class DecodingError(DaskfcError):
    """Answers of the evaluators that contradict each other beyond what the code can correct."""


class ClusterError(DaskfcError):
    """A scheduler that cannot be reached, or a worker that a run needs and does not find."""


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
        Which of daskfc's errors the sentence is of; empty for any other exception.
    """

    def __init__(self, party: str, step: str, kind: str) -> None:
        super().__init__(party, step, kind)
        self.party = party
        self.step = step
        self.kind = kind
        self.error_type = ""

    def __str__(self) -> str:
        return f"step {self.step!r} of party {self.party!r} failed: {self.kind}"
