"""Writes an encoder as an ONNX graph, node by node, with its large weights in eight bits.

By hand rather than by tracing: two small architectures make a short file, the graph is as plain as
the network, and no exporter's version changes it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from marc_lab.networks.convolutional import Convolutional, Projected, Residual
from marc_lab.networks.transformer import GRID, Layer, PictureTransformer
from training.rounding import in_levels, is_rounded

OPSET = 20
"""The first with a Gelu."""
IR_VERSION = 9
INPUT, OUTPUT = "images", "embeddings"


def onnx_model(encoder: nn.Module) -> onnx.ModelProto:
    """The graph of a folded encoder: images (n, 3, 64, 64) in [0, 1] to (n, dimension)."""
    graph = Graph()
    graph.add("Identity", _embedding(graph, encoder), output=OUTPUT)
    shapes = {INPUT: ["n", 3, 64, 64], OUTPUT: ["n", encoder.dimension]}
    ends = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    }
    body = helper.make_graph(
        graph.nodes, "encoder", [ends[INPUT]], [ends[OUTPUT]], graph.initializers
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


class Graph:
    """Nodes and stored numbers, collected in the order of the computation."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Append a node; returns the name of what it computes."""
        name = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def split(self, value: str, parts: int) -> list[str]:
        """Equal parts along the last axis."""
        names = [f"part_{len(self.nodes)}_{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [value], names, axis=-1, num_outputs=parts))
        return names

    def store(self, numbers: Tensor | np.ndarray | float | list[int]) -> str:
        """Numbers as they are."""
        if isinstance(numbers, Tensor):
            numbers = numbers.detach().numpy()
        array = np.asarray(numbers)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        name = f"stored_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, weight: Tensor, *, transposed: bool = False) -> str:
        """A layer's weight, output channels first; in eight bits when it is large.

        A cast and a product give the weight back rather than DequantizeLinear: ONNX Runtime
        computes both once when it loads, but takes the latter as leave to round activations, too.
        """
        if not is_rounded(weight):
            return self.store(weight.T if transposed else weight)
        levels, scales = in_levels(weight)
        levels, scales = levels.to(torch.int8), scales.view(-1, *[1] * (weight.ndim - 1))
        if transposed:
            levels, scales = levels.T, scales.T
        numbers = self.add("Cast", self.store(levels), to=TensorProto.FLOAT)
        return self.add("Mul", numbers, self.store(scales))


def _embedding(graph: Graph, encoder: nn.Module) -> str:
    if isinstance(encoder, Projected):
        return _linear(graph, encoder.projection, _embedding(graph, encoder.body))
    centred = graph.add("Sub", INPUT, graph.store(0.5))
    images = graph.add("Mul", centred, graph.store(4.0))
    if isinstance(encoder, Convolutional):
        return _convolutional(graph, encoder, images)
    if isinstance(encoder, PictureTransformer):
        return _picture_transformer(graph, encoder, images)
    raise TypeError(f"no way to write {type(encoder).__name__} is known")


def _convolutional(graph: Graph, encoder: Convolutional, images: str) -> str:
    value = graph.add("Relu", _convolution(graph, encoder.stem[0][0], images))
    for block in encoder.stages:
        value = _residual(graph, block, value)
    return _neck(graph, encoder.neck, _mean(graph, value, [2, 3]))


def _residual(graph: Graph, block: Residual, value: str) -> str:
    inner = graph.add("Relu", _convolution(graph, block.first[0], value))
    inner = _convolution(graph, block.second[0], inner)
    if isinstance(block.shortcut, nn.Sequential):
        value = _convolution(graph, block.shortcut[0], value)
    return graph.add("Relu", graph.add("Add", inner, value))


def _picture_transformer(graph: Graph, encoder: PictureTransformer, images: str) -> str:
    value = graph.add("Gelu", _convolution(graph, encoder.patches[0], images))
    value = _convolution(graph, encoder.patches[2], value)  # (n, width, 8, 8)
    shape = graph.store([0, encoder.dimension, GRID * GRID])
    value = graph.add("Transpose", graph.add("Reshape", value, shape), perm=[0, 2, 1])
    value = graph.add("Add", value, graph.store(encoder.positions))
    for layer in encoder.trunk.layers:
        value = _layer(graph, layer, value)
    value = _layer_norm(graph, encoder.trunk.norm, value)
    return _neck(graph, encoder.neck, _mean(graph, value, [1]))


def _layer(graph: Graph, layer: Layer, value: str) -> str:
    normed = _layer_norm(graph, layer.norm_attention, value)
    attended = _attention(graph, layer, _linear(graph, layer.query_key_value, normed))
    value = graph.add("Add", value, _linear(graph, layer.mix, attended))
    normed = _layer_norm(graph, layer.norm_perceptron, value)
    inner = graph.add("Gelu", _linear(graph, layer.widen, normed))
    return graph.add("Add", value, _linear(graph, layer.narrow, inner))


def _attention(graph: Graph, layer: Layer, parts: str) -> str:
    """Queries, keys and values side by side, (n, 64, 3 width), to (n, 64, width)."""
    width = layer.mix.in_features
    depth = width // layer.heads
    shape = graph.store([0, GRID * GRID, layer.heads, depth])
    query, key, value = (graph.add("Reshape", part, shape) for part in graph.split(parts, 3))
    query = graph.add("Transpose", query, perm=[0, 2, 1, 3])  # (n, heads, 64, depth)
    key = graph.add("Transpose", key, perm=[0, 2, 3, 1])  # (n, heads, depth, 64)
    value = graph.add("Transpose", value, perm=[0, 2, 1, 3])
    scores = graph.add("Mul", graph.add("MatMul", query, key), graph.store(1 / math.sqrt(depth)))
    seen = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    seen = graph.add("Transpose", seen, perm=[0, 2, 1, 3])
    return graph.add("Reshape", seen, graph.store([0, GRID * GRID, width]))


def _convolution(graph: Graph, layer: nn.Conv2d, value: str) -> str:
    height, width = layer.padding
    return graph.add(
        "Conv",
        value,
        graph.weight(layer.weight),
        graph.store(layer.bias),
        kernel_shape=list(layer.kernel_size),
        strides=list(layer.stride),
        pads=[height, width, height, width],
    )


def _linear(graph: Graph, layer: nn.Linear, value: str) -> str:
    product = graph.add("MatMul", value, graph.weight(layer.weight, transposed=True))
    return product if layer.bias is None else graph.add("Add", product, graph.store(layer.bias))


def _layer_norm(graph: Graph, layer: nn.LayerNorm, value: str) -> str:
    learned = graph.store(layer.weight), graph.store(layer.bias)
    return graph.add("LayerNormalization", value, *learned, axis=-1, epsilon=layer.eps)


def _mean(graph: Graph, value: str, axes: list[int]) -> str:
    return graph.add("ReduceMean", value, graph.store(axes), keepdims=0)


def _neck(graph: Graph, neck: nn.Module, value: str) -> str:
    if isinstance(neck, nn.Identity):
        return value
    centred = graph.add("Sub", value, graph.store(neck.running_mean))
    return graph.add("Mul", centred, graph.store((neck.running_var + neck.eps).rsqrt()))
