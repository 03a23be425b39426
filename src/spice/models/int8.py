"""EfficientNet-Lite in 8-bit integers: nearly the same features, twice as fast on a CPU with instructions for them.

Every tensor of the exported network gets a pair of QuantizeLinear and DequantizeLinear, which ONNX Runtime merges into
integer operations. Weights have a scale per output channel. Scales of activations need no images: batch norm knows the
mean and standard deviation of every channel, and the range is mean ± 4 deviations, clipped where ReLU6 clips (after
Nagel et al. 2019, "Data-free quantization"). So the quantized network depends on the weights alone.

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
# A larger bias would not fit into 32 bits.
LARGEST_BIAS = 2.0**30


class _Spread(NamedTuple):
    """Mean and variance of each channel of a tensor: (C,)."""

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
    """Rewrites a graph of convolutions, clips, sums and one mean, node by node."""

    def __init__(self, model: onnx.ModelProto, network: EfficientNetLite, normalization: Normalization) -> None:
        self.model, self.graph = model, model.graph
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer}
        self.norms = iter([module.norm for module in network.modules() if isinstance(module, ConvNorm)])
        # The ReLU6 after each convolution, which saturating integers replace: input -> output.
        self.clipped = {node.input[0]: node.output[0] for node in self.graph.node if node.op_type == "Clip"}
        self.spread: dict[str, _Spread] = {}
        self.scale: dict[str, np.float32] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, onnx.TensorProto] = {}
        white = [(1 - mean) / std for mean, std in zip(normalization.mean, normalization.std, strict=True)]
        black = [-mean / std for mean, std in zip(normalization.mean, normalization.std, strict=True)]
        self._quantize("images", "images", (min(black), max(white)))

    def quantized(self) -> onnx.ModelProto:
        for node in self.graph.node:
            if node.op_type == "Conv":
                self._convolution(node)
            elif node.op_type == "Add":
                self._sum(node)
            elif node.op_type == "ReduceMean":  # the features, in floats
                axes = self._constant(node.input[1], self.constants[node.input[1]])
                self._node("ReduceMean", [_dequantized(node.input[0]), axes], node.output[0], **_attributes(node))
            elif node.op_type == "Identity":  # the feature map
                self._node("Identity", [_dequantized(node.input[0])], node.output[0])
            elif node.op_type != "Clip":
                raise ValueError(f"{node.op_type} is not supported in 8-bit integers")
        graph = helper.make_graph(self.nodes, "int8", self.graph.input, self.graph.output, list(self.tensors.values()))
        quantized = helper.make_model(graph, opset_imports=self.model.opset_import)
        quantized.ir_version = self.model.ir_version
        onnx.checker.check_model(quantized)
        return quantized

    def _convolution(self, node: onnx.NodeProto) -> None:
        norm = next(self.norms)
        source, output = node.input[0], self.clipped.get(node.output[0], node.output[0])
        weights, bias = self._weights(node, self.scale[source])
        self._node("Conv", [_dequantized(source), weights, bias], f"{output}.float", **_attributes(node))
        mean, deviation = (value.detach().double().numpy() for value in (norm.bias, norm.weight))
        self.spread[output] = _Spread(mean, deviation**2)
        low, high = self.spread[output].range()
        limits = (0.0, min(6.0, high)) if node.output[0] in self.clipped else (low, high)
        self._quantize(f"{output}.float", output, limits)

    def _weights(self, node: onnx.NodeProto, input_scale: np.float32) -> tuple[str, str]:
        """Quantize weights, with a scale per output channel, and bias, in units of weight scale * input scale."""
        weight, bias = self.constants[node.input[1]], self.constants[node.input[2]]
        largest = np.abs(weight).reshape(len(weight), -1).max(axis=1)
        least = np.abs(bias) / (LARGEST_BIAS * input_scale)  # for a channel with weights near zero
        scale = np.maximum(np.maximum(largest / 127, least), 1e-12).astype(np.float32)  # (C,)
        integers = np.rint(weight / scale.reshape(-1, 1, 1, 1)).clip(-127, 127).astype(np.int8)
        names = node.input[1], node.input[2]
        self._quantized_constant(names[0], integers, scale)
        bias_scale = (scale * input_scale).astype(np.float32)
        self._quantized_constant(names[1], np.rint(bias / bias_scale).astype(np.int32), bias_scale)
        return _dequantized(names[0]), _dequantized(names[1])

    def _sum(self, node: onnx.NodeProto) -> None:
        left, right = (self.spread[name] for name in node.input)
        output = node.output[0]
        self.spread[output] = _Spread(left.mean + right.mean, left.variance + right.variance)
        self._node("Add", [_dequantized(name) for name in node.input], f"{output}.float")
        self._quantize(f"{output}.float", output, self.spread[output].range())

    def _quantize(self, source: str, name: str, limits: tuple[float, float]) -> None:
        """Quantize the tensor `source` as `name`, so that zero is exactly one of the 256 values."""
        low, high = min(limits[0], 0.0), max(limits[1], 0.0)
        self.scale[name] = np.float32((high - low) / 255)
        scale = self._constant(f"{name}.scale", np.array(self.scale[name]))
        zero = self._constant(f"{name}.zero", np.array(round(-low * 255 / (high - low)), dtype=np.uint8))
        self._node("QuantizeLinear", [source, scale, zero], f"{name}.int")
        self._node("DequantizeLinear", [f"{name}.int", scale, zero], _dequantized(name))

    def _quantized_constant(self, name: str, integers: NDArray[np.generic], scale: NDArray[np.float32]) -> None:
        zero = self._constant(f"{name}.zero", np.zeros(len(scale), dtype=integers.dtype))
        inputs = [self._constant(f"{name}.int", integers), self._constant(f"{name}.scale", scale), zero]
        self._node("DequantizeLinear", inputs, _dequantized(name), axis=0)

    def _constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.tensors[name] = numpy_helper.from_array(value, name)
        return name

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))


def _dequantized(name: str) -> str:
    """The name of the tensor in floats, after quantization."""
    return f"{name}.real"


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
