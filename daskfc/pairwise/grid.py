"""The upper triangle of an n × n matrix, in square blocks."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class SymmetricGrid:
    """Blocks (i, j), i <= j, of `tile` rows, the last fewer, of a symmetric n × n matrix."""

    n: int
    tile: int

    @property
    def n_panels(self) -> int:
        """Panels of rows, ceil(n / tile)."""
        return -(-self.n // self.tile)

    @property
    def n_blocks(self) -> int:
        """Blocks of the upper triangle, the diagonal included."""
        return self.n_panels * (self.n_panels + 1) // 2

    @property
    def n_entries(self) -> int:
        """Entries of all blocks together, including both halves of diagonal blocks."""
        whole, rest = divmod(self.n, self.tile)
        # half of the square, and the other half of the diagonal blocks
        return (self.n * self.n + whole * self.tile * self.tile + rest * rest) // 2

    def panel(self, i: int) -> slice:
        """Return the rows of panel ``i``."""
        return slice(i * self.tile, min((i + 1) * self.tile, self.n))

    def size(self, i: int) -> int:
        """Return the number of rows of panel ``i``."""
        return min(self.tile, self.n - i * self.tile)

    def shape(self, i: int, j: int) -> tuple[int, int]:
        """Return the shape of block (i, j)."""
        return self.size(i), self.size(j)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Iterate over the blocks (i, j), i <= j, row by row."""
        for i in range(self.n_panels):
            for j in range(i, self.n_panels):
                yield i, j
