"""Frozen networks on a CPU, run by ONNX Runtime: `lite0` is several times faster than in torch.

A network is exported once, compared with torch, and cached. If the export fails or its outputs differ from torch's,
the network runs in torch, with a warning. The tracing exporter (`dynamo=False`) is deprecated. It takes one second; the
new one takes ten and needs `onnxscript`. Their outputs agree.
"""

import hashlib
import logging
import os
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from threading import Lock

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from platformdirs import user_cache_dir
from torch import Tensor, nn

from spice.errors import SpiceWarning, warn_user
from spice.files import written_atomically
from spice.models.backbone import Backbone, example_images, weights_hash
from spice.models.int8 import quantize
from spice.settings import Normalization
from spice.version import __version__

TOLERANCE = 1e-4  # largest difference from torch, relative to the largest feature
FEATURES, MAP = "features", "map"  # names of outputs; if there is a map, the features are its mean
FORMAT = 2  # version of the cached files
IMAGES_PER_CALL = 16  # more are no faster and need more memory

log = logging.getLogger("spice")


class ExportWarning(SpiceWarning):
    """The network could not be exported and runs in torch, more slowly."""


class Session:
    """An ONNX file opened on the CPU. It uses as many threads as torch has in the calling thread."""

    def __init__(self, model: Path | bytes) -> None:
        self._model = str(model) if isinstance(model, Path) else model
        self._lock = Lock()
        self._sessions: dict[int, onnxruntime.InferenceSession] = {}  # by number of threads
        session = self._session(torch.get_num_threads())
        self.input = session.get_inputs()[0]
        self.outputs = session.get_outputs()

    def __reduce__(self) -> tuple[type["Session"], tuple[Path | bytes]]:
        """For pickle and copy: reopens the same file."""
        return Session, (Path(self._model) if isinstance(self._model, str) else self._model,)

    def has(self, output: str) -> bool:
        """Whether there is an output of this name."""
        return any(known.name == output for known in self.outputs)

    def run(self, images: Tensor, output: str) -> Tensor:
        """The output of this name for float32 images."""
        ready = images.detach().to(device="cpu", dtype=torch.float32)
        batch = IMAGES_PER_CALL
        if isinstance(self.input.shape[0], int):  # exported for a fixed batch size: pad the last batch
            batch = self.input.shape[0]
            ready = torch.cat([ready, ready.new_zeros(-len(ready) % batch, *ready.shape[1:])])
        session = self._session(torch.get_num_threads())
        parts: list[NDArray[np.float32]] = [
            session.run([output], {self.input.name: part.numpy()})[0] for part in torch.split(ready.contiguous(), batch)
        ]
        return torch.from_numpy(np.concatenate(parts)[: len(images)])

    def _session(self, threads: int) -> onnxruntime.InferenceSession:
        with self._lock:
            if threads not in self._sessions:
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = threads
                options.log_severity_level = 3  # only errors, which are also raised as exceptions
                opened = onnxruntime.InferenceSession(self._model, options, providers=["CPUExecutionProvider"])
                self._sessions[threads] = opened
            return self._sessions[threads]


def frozen_session(network: Backbone, *, size: int, channels: int, int8: Normalization | None = None) -> Session | None:
    """The network on ONNX Runtime, from the cache if it was exported before; None if it cannot be exported.

    Args:
        int8: compute in 8-bit integers, for images with this normalization.
    """
    # The versions of everything that affects the export.
    versions = (FORMAT, __version__, torch.__version__, onnxruntime.__version__)
    identity = repr((versions, size, channels, repr(network), weights_hash(network), *([int8] if int8 else [])))
    name = _hash(identity.encode())
    for path in sorted(cache_folder().glob(f"{name}-*.onnx")):
        with suppress(Exception):  # if the cached file cannot be used, export again
            return Session(_read_cache(path))
    try:
        return _export_session(network, name, size=size, channels=channels, int8=int8)
    # Whatever fails in the exporter or the runtime, torch can still run the network.
    except Exception as error:  # noqa: BLE001
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]  # the exporter adds pages of advice
        message = f"{type(network).__name__} runs in torch, more slowly, because it could not be exported: {reason}"
        warn_user(message, ExportWarning)
        return None


def cache_folder() -> Path:
    """$SPICE_CACHE, or else the platform's cache folder."""
    return Path(os.environ.get("SPICE_CACHE") or user_cache_dir("spice", appauthor=False))


def export(network: Backbone, path: Path, *, size: int, channels: int) -> None:
    """Export the network as an ONNX file with features and, if they are its mean, the feature map.

    Raises an error if the features differ from torch's.
    """
    example = example_images(size=size, channels=channels)
    with network.exportable(example):
        trace(network, example, path, output=FEATURES)
    _simplify(path)
    if type(network).forward is Backbone.forward:  # the features are the mean of the map
        _add_map(path)
    images = torch.cat([example, example.flip(3)[:1]])  # three, since the batch size must be dynamic
    with torch.inference_mode():
        expected: Tensor = network(images)
    exported = Session(path).run(images, FEATURES)
    if exported.shape != expected.shape:
        raise ValueError(f"its features have shape {tuple(exported.shape)} instead of {tuple(expected.shape)}")
    difference = (exported - expected).abs().max().item() / max(1.0, expected.abs().max().item())
    if not difference <= TOLERANCE:  # written so that NaN is refused
        raise ValueError(f"its features differ from torch's by {difference:.1e}, more than {TOLERANCE:.0e}")


@torch.no_grad()
def trace(module: nn.Module, images: Tensor, path: Path, *, output: str) -> None:
    """Export a module with one input and one output as an ONNX file, for any number of images.

    Pass two images: the trace would treat a batch size of one as a constant.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer warns of constants; callers compare the results with torch's
        torch.onnx.export(
            module,
            (images,),
            str(path),
            input_names=["images"],
            output_names=[output],
            dynamic_axes={"images": {0: "batch"}, output: {0: "batch"}},
            dynamo=False,
        )


def _export_session(network: Backbone, name: str, *, size: int, channels: int, int8: Normalization | None) -> Session:
    """Export the network and open it. If the cache cannot be written, the next run exports again."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"{name}.onnx"
        export(network, made, size=size, channels=channels)
        content = made.read_bytes()
    if int8 is not None:
        content = quantize(onnx.load_from_string(content), network, int8).SerializeToString()
    try:
        _write_cache(name, content)
    except OSError as error:
        log.info("cannot cache the exported network: %s", error)
    return Session(content)


def _write_cache(name: str, content: bytes) -> None:
    """Cache a network in a file that only this user can read, and whose name ends in the hash of its content."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for damaged in folder.glob(f"{name}-*.onnx"):
        damaged.unlink()
    with written_atomically(folder / f"{name}-{_hash(content)}.onnx") as temporary:
        temporary.touch(mode=0o600)
        temporary.write_bytes(content)


def _read_cache(path: Path) -> bytes:
    """The content of a cached network; raises if it is damaged, or if another user could have written it."""
    content, status = path.read_bytes(), path.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise PermissionError(f"others can write {path}")
    if not path.stem.endswith(f"-{_hash(content)}"):
        raise ValueError(f"{path} is damaged")
    return content


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _simplify(path: Path) -> None:
    """Fold constants, and merge paddings into convolutions: separate ones take a third of EfficientNet's time."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    model = onnx.load(path)
    _merge_padding_(model.graph)
    onnx.save(model, path)


def _add_map(path: Path) -> None:
    """Add the feature map as a second output. Only the requested output is computed."""
    model = onnx.load(path)
    mean = next(node for node in model.graph.node if FEATURES in node.output)
    if mean.op_type == "ReduceMean":
        model.graph.node.append(onnx.helper.make_node("Identity", [mean.input[0]], [MAP]))
        model.graph.output.append(onnx.helper.make_tensor_value_info(MAP, onnx.TensorProto.FLOAT, [None] * 4))
        onnx.save(model, path)


def _merge_padding_(graph: onnx.GraphProto) -> None:
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "Pad"]:
        readers = [reader for reader in graph.node if node.output[0] in reader.input]
        amounts = constants.get(node.input[1])  # before and after: batch, channel, row, column
        if amounts is None or len(amounts) != 8 or amounts[[0, 1, 4, 5]].any() or any(node.input[2:]):
            continue  # not a padding of the sides by a known number of zeros
        if [reader.op_type for reader in readers] == ["Conv"]:
            pads = next(attribute.ints for attribute in readers[0].attribute if attribute.name == "pads")
            pads[:] = [old + int(new) for old, new in zip(pads, amounts[[2, 3, 6, 7]], strict=True)]
            readers[0].input[0] = node.input[0]
            graph.node.remove(node)
