"""The tiles of a block of distances, the same for every engine and evaluator."""

from collections.abc import Iterator

# Hiding words are drawn tile after tile, so these two numbers are part of the protocol.
TILE_ROWS = 512  # the int32 products of a tile fill half of a 1 MiB L2 cache,
TILE_COLUMNS = 256  # and onnxruntime's int8 kernel is fastest for at most 256 columns


def block_tiles(
    shape: tuple[int, int], symmetric: bool = False
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (top, left, bottom, right) of a block's tiles, or of a `symmetric` one's upper part."""
    for top in range(0, shape[0], TILE_ROWS):
        bottom = min(top + TILE_ROWS, shape[0])
        for left in range(0, shape[1], TILE_COLUMNS):
            right = min(left + TILE_COLUMNS, shape[1])
            if not symmetric:
                yield top, left, bottom, right
            elif top < right:  # the rows from `right` on lie below the diagonal
                yield top, left, min(bottom, right), right
