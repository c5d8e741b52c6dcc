"""Write the graph of `memkit.index.encoders.e5`, without its weights.

    python tests/audit/make_e5_graph.py [--check]

Needs ``onnx`` and the extra ``e5``. Run it when the graph or the names of its weights change; the graph's bytes are
part of the encoder's fingerprint. ``--check`` writes nothing and says whether the file is what this script would write.
"""

from __future__ import annotations

import argparse
import math
import sys
from itertools import count

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from memkit.index.encoders import e5
from memkit.index.encoders.e5 import GRAPH, WeightsFile, prepared

CONTRIB = "com.microsoft"
ZERO = 128  # of a token's levels, which are 8 bits without a sign


class Graph:
    """Nodes, and constants that are small enough to stand in the file."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.number = count(1)

    def const(self, value: object) -> str:
        name = f"c{next(self.number)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def ops(self, kind: str, inputs: list[str], outputs: int, domain: str = "", **options: object) -> list[str]:
        names = [f"t{next(self.number)}" for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **options))
        return names

    def op(self, kind: str, *inputs: str, domain: str = "", **options: object) -> str:
        return self.ops(kind, list(inputs), 1, domain, **options)[0]


def model(file: WeightsFile) -> onnx.ModelProto:
    graph = Graph()
    op, last = graph.op, graph.const(np.array([-1]))
    one, zero, step = graph.const(np.float32(1)), graph.const(np.uint8(ZERO)), graph.const(np.float32(1 / 127))

    def quantised(x: str) -> tuple[str, str]:
        """Each token's largest part becomes 127 beside `ZERO`; with the tokens' scales."""
        scales = op("Mul", op("ReduceMax", op("Abs", x), last, keepdims=1), step)
        return op("QuantizeLinear", op("Div", x, scales), one, zero), scales

    def linear(x: str, name: str) -> str:
        levels, scales = quantised(x)
        product = op("MatMulIntegerToFloat", levels, f"{name}.levels", one, f"{name}.scales", zero, domain=CONTRIB)
        return op("Add", op("Mul", product, scales), f"{name}.bias")

    tiny = graph.const(np.float32(file.width * file.epsilon + 1e-20))

    def norm(a: str, b: str, name: str) -> str:
        """The layer norm of a sum, in steps: ONNX Runtime's own has no vector instructions."""
        x = op("Add", a, b)
        x = op("Sub", x, op("ReduceMean", x, last, keepdims=1))
        length = op("Sqrt", op("Add", op("ReduceSumSquare", x, last, keepdims=1), tiny))
        return op("Add", op("Mul", op("Mul", x, op("Reciprocal", length)), f"{name}.weight"), f"{name}.bias")

    x = op("LayerNormalization", "words", "embed.norm.weight", "embed.norm.bias", epsilon=file.epsilon)
    scale = 1 / math.sqrt(file.width // file.heads)
    for layer in range(file.layers):
        name = f"layer{layer}"
        parts = graph.ops("Split", [linear(x, f"{name}.attention.in")], 3, axis=2, num_outputs=3)
        attention = op("MultiHeadAttention", *parts, domain=CONTRIB, num_heads=file.heads, scale=scale)
        x = norm(linear(attention, f"{name}.attention.out"), x, f"{name}.attention.norm")
        inner = op("Gelu", linear(x, f"{name}.inner.in"), domain=CONTRIB)
        x = norm(linear(inner, f"{name}.inner.out"), x, f"{name}.inner.norm")
    mean = graph.const(np.array([1]))
    graph.nodes.append(helper.make_node("ReduceMean", [x, mean], ["mean"], keepdims=0))

    words = helper.make_tensor_value_info("words", TensorProto.FLOAT, [1, "tokens", file.width])
    vector = helper.make_tensor_value_info("mean", TensorProto.FLOAT, [1, file.width])
    weights = [_outside(name, array) for name, array in prepared(file).items() if not name.startswith("piece")]
    graph_proto = helper.make_graph(graph.nodes, "e5", [words], [vector], [*graph.constants, *weights])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph_proto, opset_imports=opsets, ir_version=10, producer_name="memkit")


def _outside(name: str, array: np.ndarray) -> onnx.TensorProto:
    """A weight of which the graph has type and shape alone."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = onnx.TensorProto(name=name, data_type=kind, dims=array.shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights"), ("offset", "0"), ("length", str(array.nbytes))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    check = parser.parse_args().check
    graph = model(WeightsFile(e5._file())).SerializeToString(deterministic=True)
    if check:
        print("the same" if GRAPH.read_bytes() == graph else "another")
        return int(GRAPH.read_bytes() != graph)
    GRAPH.write_bytes(graph)
    print(f"{GRAPH.name}: {len(graph):,} bytes")
    return 0


BY_HAND = "it needs the package onnx, which nothing else does"


if __name__ == "__main__":
    sys.exit(main())
