"""Secure computations that several protocols share: sums, distances, k-means, preparation."""
