"""The rules of a party in a run that was announced to open sums of so many samples and clients."""

from daskfc.federation.party.site_rules import SiteRules


class Announced(SiteRules):
    def __init__(self, smallest):
        self._smallest = smallest

    @property
    def smallest(self):
        return self._smallest
