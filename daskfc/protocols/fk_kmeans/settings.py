"""Settings of the iterations, and the cost of both solvers."""

from dataclasses import dataclass

from daskfc.linalg.symmetric import packed_size

LATENCY_S = 0.1  # ours: a round trip of messages among distant sites
BANDWIDTH = 12.5e6  # ours: bytes a second that the server receives
_PRODUCTS = 3.5  # ours: Lanczos products per eigenpair, measured on digits and MNIST


@dataclass(frozen=True)
class IterationSettings:
    """The parameters of FederatedKernelKMeans that the iterations use."""

    n_clusters: int
    n_features: int
    iterations: int
    solver: str
    lanczos_block: int
    tolerance: float
    random_state: int


@dataclass(frozen=True)
class SolverCost:
    """The cost of one iteration's eigenpairs: round trips, numbers each client uploads, seconds."""

    solver: str
    rounds: int
    floats: int
    seconds: float


def _cost(solver: str, rounds: int, floats: int, n_clients: int) -> SolverCost:
    seconds = rounds * LATENCY_S + 8.0 * floats * n_clients / BANDWIDTH
    return SolverCost(solver, rounds, floats, seconds)


def cost_of_gram(n_columns: int, n_clients: int) -> SolverCost:
    """Return the cost of one sum of WᵀW: (D + r)(D + r + 1) / 2 numbers, once."""
    return _cost("gram", 1, packed_size(n_columns), n_clients)


def cost_of_lanczos(n_columns: int, n_pairs: int, block: int, n_clients: int) -> SolverCost:
    """Return the cost of Lanczos: D + r numbers a product, `block` products a round trip."""
    rounds = min(-(-n_columns // block), -(-int(_PRODUCTS * n_pairs) // block) + block // 2)
    products = min(rounds * block, n_columns)
    return _cost("lanczos", rounds, products * n_columns, n_clients)


def cheaper(n_columns: int, n_pairs: int, block: int, n_clients: int) -> SolverCost:
    """Return the faster solver, the sum of Gram matrices if both take the same time."""
    gram = cost_of_gram(n_columns, n_clients)
    lanczos = cost_of_lanczos(n_columns, n_pairs, block, n_clients)
    return min(gram, lanczos, key=lambda one: one.seconds)
