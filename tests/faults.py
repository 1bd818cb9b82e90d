"""How a crash of the machine may leave a file."""

import pytest

TEARS = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a hole": lambda path: path.write_bytes(
        path.read_bytes()[: path.stat().st_size // 2] + bytes(-(-path.stat().st_size // 2))
    ),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
}

tears = pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
