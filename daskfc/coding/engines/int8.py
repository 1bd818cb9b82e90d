"""Matrix products of bytes through onnxruntime, without the `onnx` package.

The model is one node, MatMulInteger (uint8 x int8 -> int32), in the wire format of protocol
buffers: a field is its number and type, then a length and bytes, or a varint.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_UINT8, _INT8, _INT32 = 2, 3, 6  # onnx.TensorProto.DataType


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _tensor(name: str, kind: int, *axes: str) -> bytes:
    """ValueInfoProto{name = 1, type = 2{tensor_type = 1{elem_type = 1, shape = 2{dim = 1}}}}."""
    shape = b"".join(_field(1, _field(2, axis)) for axis in axes)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _model() -> bytes:
    node = _field(1, "a") + _field(1, "b") + _field(2, "c") + _field(4, "MatMulInteger")
    graph = (
        _field(1, node)
        + _field(2, "product")
        + _field(11, _tensor("a", _UINT8, "m", "k"))
        + _field(11, _tensor("b", _INT8, "k", "n"))
        + _field(12, _tensor("c", _INT32, "m", "n"))
    )
    opset = _field(2, 10)  # the first with MatMulInteger
    return _field(1, 7) + _field(7, graph) + _field(8, opset)  # ModelProto, IR version 7


@lru_cache(maxsize=1)
def _session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # callers thread over tiles
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(_model(), options, providers=["CPUExecutionProvider"])


def available() -> str | None:
    """Return None when products of bytes can be computed, else the reason."""
    try:
        _session()
    except ImportError:
        return "onnxruntime is not installed (it comes with daskfc[fast])"
    except Exception as error:  # onnxruntime raises its own types; whatever it is, fall back
        return f"onnxruntime refuses its model ({type(error).__name__})"
    return (
        "products of bytes saturate on this processor, which lacks VNNI" if _saturates() else None
    )


@lru_cache(maxsize=1)
def _saturates() -> bool:
    """Return whether kernels add pairs of products in 16 bits, as without VNNI."""
    a, b = np.full((16, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    return bool((_product(a, b, np.empty((16, 16), np.int32)) != 64 * 255 * 127).any())


def multiply(
    a: NDArray[np.uint8], b: NDArray[np.int8], out: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Write a (m, k) @ b (k, n) into `out`, without the interpreter lock."""
    return _product(a, b, out)


def _product(
    a: NDArray[np.uint8], b: NDArray[np.int8], out: NDArray[np.int32]
) -> NDArray[np.int32]:
    session = _session()
    binding = session.io_binding()
    binding.bind_input("a", "cpu", 0, np.uint8, a.shape, a.ctypes.data)
    binding.bind_input("b", "cpu", 0, np.int8, b.shape, b.ctypes.data)
    binding.bind_output("c", "cpu", 0, np.int32, out.shape, out.ctypes.data)
    session.run_with_iobinding(binding)
    return out
