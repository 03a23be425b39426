"""EfficientNet-Lite in 8-bit integers: twice as fast on a CPU with instructions for them, nearly the same features.

The exported network gets a pair of QuantizeLinear and DequantizeLinear at every tensor, which ONNX Runtime merges into
integer operations. Scales need no images: batch norm knows the mean and deviation of every channel of what it was
trained on, so a tensor's range is that of the channels' mean ± 4 deviations, cut where ReLU6 cuts (after Nagel et al.
2019, "Data-free quantization"). Weights have a scale per output channel. So the same weights give the same network.

Shapes: C channels.
"""

from typing import NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from spice.models.backbone import Backbone
from spice.models.efficientnet import ConvNorm, EfficientNetLite
from spice.settings import Normalization

DEVIATIONS = 4.0
# Above this a bias would not fit into 32 bits.
LARGEST_BIAS = 2.0**30


class _Spread(NamedTuple):
    """Mean and variance of every channel of a tensor: (C,)."""

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]

    def range(self) -> tuple[float, float]:
        reach = DEVIATIONS * np.sqrt(self.variance)
        return float((self.mean - reach).min()), float((self.mean + reach).max())


def has_int8(network: Backbone | None) -> bool:
    """Whether the network can run in 8-bit integers."""
    return isinstance(network, EfficientNetLite)


def quantize(model: onnx.ModelProto, network: Backbone, normalization: Normalization) -> onnx.ModelProto:
    """The exported network in 8-bit integers."""
    assert isinstance(network, EfficientNetLite)
    return _Quantizer(model, network, normalization).quantized()


class _Quantizer:
    """Rewrites a graph of convolutions, clips, sums and one mean, from the first node to the last."""

    def __init__(self, model: onnx.ModelProto, network: EfficientNetLite, normalization: Normalization) -> None:
        self.model, self.graph = model, model.graph
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer}
        self.norms = iter([module.norm for module in network.modules() if isinstance(module, ConvNorm)])
        # By convolution: the name of the ReLU6 after it, which saturating integers make unnecessary.
        self.clipped = {node.input[0]: node.output[0] for node in self.graph.node if node.op_type == "Clip"}
        self.spread: dict[str, _Spread] = {}
        self.scale: dict[str, np.float32] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, onnx.TensorProto] = {}
        white = [(1 - mean) / std for mean, std in zip(normalization.mean, normalization.std, strict=True)]
        black = [-mean / std for mean, std in zip(normalization.mean, normalization.std, strict=True)]
        self._integers("images", "images", (min(black), max(white)))

    def quantized(self) -> onnx.ModelProto:
        for node in self.graph.node:
            if node.op_type == "Conv":
                self._convolution(node)
            elif node.op_type == "Add":
                self._sum(node)
            elif node.op_type == "ReduceMean":  # of the last map, in floats: the features
                axes = self._constant(node.input[1], self.constants[node.input[1]])
                self._node("ReduceMean", [_real(node.input[0]), axes], node.output[0], **_attributes(node))
            elif node.op_type == "Identity":  # that map itself
                self._node("Identity", [_real(node.input[0])], node.output[0])
            elif node.op_type != "Clip":
                raise ValueError(f"there is no 8-bit {node.op_type}")
        graph = helper.make_graph(self.nodes, "int8", self.graph.input, self.graph.output, list(self.tensors.values()))
        made = helper.make_model(graph, opset_imports=self.model.opset_import)
        made.ir_version = self.model.ir_version
        onnx.checker.check_model(made)
        return made

    def _convolution(self, node: onnx.NodeProto) -> None:
        norm = next(self.norms)
        source, output = node.input[0], self.clipped.get(node.output[0], node.output[0])
        weights, bias = self._weights(node, self.scale[source])
        self._node("Conv", [_real(source), weights, bias], f"{output}.float", **_attributes(node))
        mean, deviation = (value.detach().double().numpy() for value in (norm.bias, norm.weight))
        self.spread[output] = _Spread(mean, deviation**2)
        low, high = self.spread[output].range()
        limits = (0.0, min(6.0, high)) if node.output[0] in self.clipped else (low, high)
        self._integers(f"{output}.float", output, limits)

    def _weights(self, node: onnx.NodeProto, input_scale: np.float32) -> tuple[str, str]:
        """Weights with a scale per output channel, and the bias in units of both scales, as integer sums have it."""
        weight, bias = self.constants[node.input[1]], self.constants[node.input[2]]
        largest = np.abs(weight).reshape(len(weight), -1).max(axis=1)
        least = np.abs(bias) / (LARGEST_BIAS * input_scale)  # of a channel whose weights are all but zero
        scale = np.maximum(np.maximum(largest / 127, least), 1e-12).astype(np.float32)  # (C,)
        whole = np.rint(weight / scale.reshape(-1, 1, 1, 1)).clip(-127, 127).astype(np.int8)
        names = node.input[1], node.input[2]
        self._from_integers(names[0], whole, scale)
        bias_scale = (scale * input_scale).astype(np.float32)
        self._from_integers(names[1], np.rint(bias / bias_scale).astype(np.int32), bias_scale)
        return _real(names[0]), _real(names[1])

    def _sum(self, node: onnx.NodeProto) -> None:
        one, other = (self.spread[name] for name in node.input)
        output = node.output[0]
        self.spread[output] = _Spread(one.mean + other.mean, one.variance + other.variance)
        self._node("Add", [_real(name) for name in node.input], f"{output}.float")
        self._integers(f"{output}.float", output, self.spread[output].range())

    def _integers(self, source: str, name: str, limits: tuple[float, float]) -> None:
        """Quantize the tensor `source` to eight bits, as `name`; zero is one of the 256 values."""
        low, high = min(limits[0], 0.0), max(limits[1], 0.0)
        self.scale[name] = np.float32((high - low) / 255)
        scale = self._constant(f"{name}.scale", np.array(self.scale[name]))
        zero = self._constant(f"{name}.zero", np.array(round(-low * 255 / (high - low)), dtype=np.uint8))
        self._node("QuantizeLinear", [source, scale, zero], f"{name}.int")
        self._node("DequantizeLinear", [f"{name}.int", scale, zero], _real(name))

    def _from_integers(self, name: str, whole: NDArray[np.generic], scale: NDArray[np.float32]) -> None:
        zero = self._constant(f"{name}.zero", np.zeros(len(scale), dtype=whole.dtype))
        inputs = [self._constant(f"{name}.int", whole), self._constant(f"{name}.scale", scale), zero]
        self._node("DequantizeLinear", inputs, _real(name), axis=0)

    def _constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.tensors[name] = numpy_helper.from_array(value, name)
        return name

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))


def _real(name: str) -> str:
    """The tensor in floats, after its integers."""
    return f"{name}.real"


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {one.name: helper.get_attribute_value(one) for one in node.attribute}
