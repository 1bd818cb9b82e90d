"""What a site itself decides and stores: its policy, and its memory of earlier runs."""

from daskfc.site.amounts import ANY_PART, BETWEEN_SITES, Budget, Smallest
from daskfc.site.packages import package_of
from daskfc.site.policy import Policy
from daskfc.site.request import Refusal, RunRequest
from daskfc.site.state import AuditRow, Grant, SiteState

__all__ = [
    "ANY_PART",
    "BETWEEN_SITES",
    "AuditRow",
    "Budget",
    "Grant",
    "Policy",
    "Refusal",
    "RunRequest",
    "SiteState",
    "Smallest",
    "package_of",
]
