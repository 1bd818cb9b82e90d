"""What a party's process takes of its memory limit, and what fits beside it."""

# Resident memory of a worker that has loaded what steps import and compile: 249 MB measured, 270
# after a fit (Python 3.11, Linux).
PROCESS_BYTES = 280_000_000
USABLE = 1 / 1.1  # of a limit: fits take up to a tenth more than is foreseen (docs/memory.md)


def fits(needed: int, limit: int | None) -> bool:
    """Return whether so many bytes are within `USABLE` of a limit; None is no limit."""
    return limit is None or needed <= USABLE * limit
