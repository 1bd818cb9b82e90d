"""Attacks that measure what the sums of federated kernel k-means reveal."""

from daskfc.protocols.fk_kmeans.privacy.attacks import Reconstruction, rows_in_span, span_of

__all__ = ["Reconstruction", "rows_in_span", "span_of"]
