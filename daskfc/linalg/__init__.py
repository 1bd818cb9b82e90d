"""Linear algebra: coordinates of a distance matrix, Laplacians, leading eigenvectors."""

from daskfc.linalg.distances import (
    accurate_squared_distances,
    squared_distances,
    symmetric_squared_distances,
)
from daskfc.linalg.integer_points import SPAN, IntegerPoints, points_from_columns
from daskfc.linalg.landmarks import LandmarkEmbedding, row_factors
from daskfc.linalg.laplacian import NormalisedAdjacency, components_of
from daskfc.linalg.local_basis import (
    Basis,
    divide_rows,
    projected_coordinates,
    singular_coordinates,
    squared_row_norms,
)
from daskfc.linalg.plane import plane_of_distances, plane_of_points
from daskfc.linalg.spectrum import laplacian_eigenvalues, laplacian_embedding, largest_eigenpairs

__all__ = [
    "SPAN",
    "Basis",
    "IntegerPoints",
    "LandmarkEmbedding",
    "NormalisedAdjacency",
    "accurate_squared_distances",
    "components_of",
    "divide_rows",
    "laplacian_eigenvalues",
    "laplacian_embedding",
    "largest_eigenpairs",
    "plane_of_distances",
    "plane_of_points",
    "points_from_columns",
    "projected_coordinates",
    "row_factors",
    "singular_coordinates",
    "squared_distances",
    "squared_row_norms",
    "symmetric_squared_distances",
]
