"""The maths of federated kernel k-means, on plain arrays."""
