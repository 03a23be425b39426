"""Every stage runs with its networks on another device than the CPU, although there is no GPU here.

The other device is pretended: `Elsewhere` holds its values on the CPU and says that it is on `meta`. An operation fails
where torch would fail with a GPU: if it is given tensors of both devices, or a generator of the CPU for the device, or
if a tensor of the device is made into an array. Values are real, so training takes its usual branches.

What such a test cannot see: the numbers, speed and memory of a GPU; kernels that a GPU lacks, or whose results differ
or change from run to run; half precision as CUDA has it (`test_stages_in_half_precision` uses a CPU's); copies that
have not arrived when they are read; steps that wait for the device (`item()`, `tolist()`, `nonzero()`); work in other
threads (here all runs in one); several GPUs with nccl.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from small_settings import tiny_stages
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

from spice.benchmark.rivals import scan, temi
from spice.benchmark.tables.catalog import TABLES
from spice.benchmark.tables.run import Selection
from spice.benchmark.tables.run import run as measured
from spice.data.images import InMemory
from spice.engine import device as devices
from spice.engine.checkpoints import Checkpoints
from spice.engine.device import grad_scaler, to_device
from spice.engine.processes import Processes
from spice.engine.run import Run
from spice.evaluate import accuracy
from spice.models.encoders import TorchEncoder, load_trained
from spice.models.heads import Head
from spice.models.weights import NetworkCard, save_network
from spice.neighbors import nearest
from spice.pipeline import cluster
from spice.settings import IMAGENET, FeatureSettings, HeadSettings, JointSettings, ViewSettings
from spice.stages.bank import build_bank
from spice.stages.encode import encode_plain, probabilities
from spice.stages.features.train import train_features
from spice.stages.groups.corrections import Corrections
from spice.stages.groups.label_spreading import NeighborGraph
from spice.stages.groups.learn import learn_groups
from spice.stages.heads.algorithm_1 import TrainedHeads
from spice.stages.heads.initial_clusters import clusters_by_kmeans
from spice.stages.heads.train import train_heads
from spice.stages.joint.algorithms import Batch
from spice.stages.joint.refine import Refined, Stage2, estimated_seconds, refine
from spice.stages.joint.sampling import Labeled
from spice.stages.model import TrainedModel
from spice.stages.views import Views, encode_features, encode_views, with_fresh_views

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:for .* copying from a non-meta parameter"
    ),  # it is copied; the meta device is pretended
    pytest.mark.filterwarnings("ignore::spice.errors.SpiceWarning"),  # about the quality of such short training
]

DEVICE = torch.device("meta")
COPIES = (torch.ops.aten.copy_.default, torch.ops.aten._copy_from.default)


class Elsewhere(Tensor):
    """A tensor that claims to be on the other device."""

    here: Tensor  # its values

    @staticmethod
    def __new__(cls, here: Tensor) -> "Elsewhere":
        made = Tensor._make_wrapper_subclass(cls, here.shape, here.stride(), dtype=here.dtype, device=DEVICE)
        made.here = here
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return on_one_device(operation, args, kwargs or {})

    def tolist(self) -> Any:
        return self.here.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("an array cannot be made of a tensor on another device")

    __array__ = numpy  # type: ignore[assignment]


class OtherDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Makes tensors on the other device, and moves them there and back."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return on_one_device(operation, args, kwargs or {})


def on_one_device(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)]
    elsewhere = {id(each.here): each for each in tensors if isinstance(each, Elsewhere)}
    there = bool(elsewhere)
    if kwargs.get("device") is not None:  # it creates a tensor, or copies one
        there = torch.device(kwargs["device"]) == DEVICE
        kwargs = {**kwargs, "device": torch.device("cpu")}
    elif there and operation not in COPIES:
        # As in torch, single numbers may be on the CPU.
        strangers = [tuple(each.shape) for each in tensors if not isinstance(each, Elsewhere) and each.ndim > 0]
        if strangers:
            raise RuntimeError(f"{operation} is given tensors on the device and, of shape {strangers}, on the CPU")
    if there and any(isinstance(each, torch.Generator) for each in tree_iter((args, kwargs))):
        raise RuntimeError(f"{operation} is given a generator of the CPU for a tensor on the device")
    args, kwargs = tree_map_only(Elsewhere, lambda each: each.here, (args, kwargs))
    result = operation(*args, **kwargs)
    if operation in COPIES:
        return tensors[0]
    if not there:
        return result
    return tree_map_only(Tensor, lambda each: elsewhere[id(each)] if id(each) in elsewhere else Elsewhere(each), result)


@pytest.fixture
def other_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run on the pretended device, in a single thread, because the pretense works in one thread only."""
    from torch.optim import optimizer

    with torch.device("cpu"):
        torch.empty(0)  # torch caches its functions at the first such call, which must come before the patch below

    fused = "_get_fused_kernels_supported_devices"
    known = getattr(optimizer, fused)()
    monkeypatch.setattr(optimizer, fused, lambda: [*known, DEVICE.type])
    tensor = torch.tensor  # not dispatched, and without values if the device is meta
    monkeypatch.setattr(torch, "tensor", lambda data, device=None, **about: tensor(data, **about).to(device or "cpu"))
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # which does not allow pretended tensors
    # It builds networks on the real meta device, whose name the pretended device has.
    monkeypatch.setattr("spice.models.weights._refuse_mismatch", lambda *_: None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with OtherDevice():  # type: ignore[no-untyped-call]
        yield Run(device=DEVICE)
    torch.set_num_threads(threads)


def test_the_pretended_device_refuses_what_a_gpu_refuses(other_device: Run) -> None:
    there, here = torch.ones(3, device=other_device.device), torch.ones(3)
    assert (there + there.mean()).sum().item() == 6
    assert (there.cpu() + here).tolist() == [2, 2, 2]
    assert here.to(DEVICE).device == DEVICE
    mixed: list[Callable[[], Tensor]] = [
        lambda: there + here,
        lambda: torch.cat([there, here]),
        lambda: there[torch.tensor([0])],
    ]
    for operation in mixed:
        with pytest.raises(RuntimeError, match="on the CPU"):
            operation()
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, generator=torch.Generator(), device=DEVICE)
    with pytest.raises(TypeError, match="array"):
        there.numpy()


IMAGES = InMemory(torch.randint(256, (48, 3, 16, 16), generator=torch.Generator().manual_seed(0)).byte())
CARD = NetworkCard(network="resnet10", width=4, channels=3, size=16, normalization=IMAGENET)


def encoder_on(device: torch.device) -> TorchEncoder:
    torch.manual_seed(0)
    return TorchEncoder("resnet10", CARD.build(), IMAGENET, size=16, device=device, card=CARD)


def stage_1(method: str, run: Run) -> dict[str, Tensor]:
    small: dict[str, object] = {"network": "resnet10", "width": 4, "batch": 16, "epochs": 2, "projection": 6}
    settings = FeatureSettings.model_validate({"method": method, "whitening": "auto", **small})
    return train_features(IMAGES, settings, run).network.state_dict()


@pytest.mark.parametrize("method", ["moco", "simclr", "byol"])
def test_stage_1(method: str, other_device: Run) -> None:
    trained = stage_1(method, other_device)
    assert all(isinstance(weights, Elsewhere) for weights in trained.values())


def test_views_are_made_and_encoded_there(other_device: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, encoder = ViewSettings(weak=1, strong=1), encoder_on(DEVICE)
    encode, given = encoder.encode, set[torch.device]()

    def noted(images: Tensor) -> Tensor:
        given.add(images.device)
        return encode(images)

    monkeypatch.setattr(encoder, "encode", noted)
    views = []
    for on, run in ((encoder, other_device), (encoder_on(devices.choose_device("cpu")), Run())):
        place = tmp_path / str(on.device)
        features = encode_features(IMAGES, on, place / "features.npy", run.with_folder(place))
        views.append(encode_views(IMAGES, features, on, settings, run.with_folder(place)))
    there, here = views
    assert given == {DEVICE}
    for one, other in ((there.plain, here.plain), (there.weak, here.weak), (there.strong, here.strong)):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-3)
    given.clear()
    new = with_fresh_views(there, IMAGES, encoder, settings).draw("strong", torch.arange(5), torch.Generator())
    assert (given, new.device.type) == ({DEVICE}, "cpu")


def test_plain_images_are_prepared_there(other_device: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, given = encoder_on(DEVICE), set[torch.device]()
    encode = encoder.encode

    def noted(images: Tensor) -> Tensor:
        given.add(images.device)
        return encode(images)

    monkeypatch.setattr(encoder, "encode", noted)
    there = encode_plain(encoder, IMAGES)
    assert given == {DEVICE}
    assert there.device.type == "cpu"
    torch.testing.assert_close(there, encode_plain(encoder_on(torch.device("cpu")), IMAGES), rtol=1e-2, atol=1e-3)


def test_a_head_learns_corrections_there(other_device: Run) -> None:
    features = some_views().plain
    found = nearest(torch.from_numpy(features), 5)
    near = NeighborGraph(found.index.numpy(), found.similarity.numpy())
    corrections = Corrections(
        numbers=[0, 1, 2],
        aside=np.full(60, -1),
        fixed=np.array([0, 20, 40]),
        fixed_group=np.array([0, 1, 2]),
        typical=np.array([5, 25]),
        typical_group=np.array([0, 1]),
        rejected=np.array([[1, 2]]),
        same=np.array([[2, 3]]),
        different=np.array([[4, 24]]),
        part=np.repeat(np.arange(3), 20),
    )
    settings = HeadSettings(clusters=3)
    there, here = (learn_groups(features, near, corrections, settings, run) for run in (other_device, Run()))
    assert next(there.head.parameters()).device.type == "cpu"
    assert there.group.tolist() == here.group.tolist()
    assert accuracy(there.group, np.repeat(np.arange(3), 20)) > 0.9


def some_views() -> Views:
    randomness = np.random.default_rng(0)
    plain = randomness.normal(size=(60, 8)).astype(np.float32) + np.repeat(3 * np.eye(8)[:3], 20, axis=0)
    noisy = plain + 0.1 * randomness.normal(size=(2, 60, 8))
    return Views(plain.astype(np.float32), noisy.astype(np.float32), noisy.astype(np.float32))


def stage_2(run: Run, **changes: object) -> TrainedHeads:
    settings = HeadSettings.model_validate({"clusters": 3, "heads": 3, "epochs": 2, "batch": 30, **changes})
    return train_heads(some_views(), settings, run)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sub_batch": 10},
        {"sizes": "nearest"},
        {"sizes": "nearest", "sub_batch": 10},
        {"sizes": "even", "overlap": False},
        {"sizes": "found", "start": "kmeans"},
        {"components": 4, "entropy": 1.0, "loss": "temperature"},
    ],
)
def test_stage_2(changes: dict[str, object], other_device: Run) -> None:
    trained = stage_2(other_device, **changes)
    assert trained.heads.hidden.device == DEVICE
    assert trained.head.hidden.weight.device.type == "cpu"


def test_the_first_labels_from_kmeans(other_device: Run) -> None:
    views, settings = some_views(), HeadSettings(clusters=3, heads=2)
    start = clusters_by_kmeans(views, settings, other_device)
    probs = start.probs(torch.from_numpy(views.plain).to(DEVICE))
    assert (probs.device, probs.shape) == (DEVICE, (2, 60, 3))


def stage_3(run: Run, **changes: object) -> Refined:
    encoder = encoder_on(run.device)
    features = encode_plain(encoder, IMAGES)
    head = Head(encoder.features, 3)
    stage2 = Stage2(IMAGES, encoder, head, features, probabilities(head, features), nearest(features, 5).index)
    settings = {"steps": 2, "labeled": 6, "unlabeled": 12, "learning_rate": 1e-3, "threshold": 0.3, **changes}
    labeled = Labeled(torch.arange(30), torch.arange(30) % 3)
    return refine(stage2, labeled, JointSettings.model_validate(settings), run)


@pytest.mark.parametrize("algorithm", ["fixmatch", "freematch"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"trained": 0.5}, {"init": "scratch"}, {"optimizer": "adam"}, {"network": "resnet10"}, {"minutes": 1e-4}],
)
def test_stage_3(algorithm: str, changes: dict[str, object], other_device: Run) -> None:
    found = stage_3(other_device, algorithm=algorithm, **changes)
    assert next(found.encoder.module.parameters()).device == DEVICE
    assert found.probs.device.type == "cpu"


def test_stages_1_and_3_train_networks_that_are_channels_last() -> None:
    settings = FeatureSettings(network="resnet10", width=4, batch=16, epochs=1, projection=6)  # and no whitening
    for network in (train_features(IMAGES, settings, Run()).network, stage_3(Run()).encoder.module):
        kernels = [kernel for kernel in network.state_dict().values() if kernel.ndim == 4 and min(kernel.shape[1:]) > 1]
        assert kernels
        assert all(kernel.is_contiguous(memory_format=torch.channels_last) for kernel in kernels)


class SavesOften(Run):
    """A run that saves a checkpoint after every step."""

    def checkpoints(self, identity: Mapping[str, object], *, every_seconds: float = 0.0) -> Checkpoints:
        return super().checkpoints(identity, every_seconds=every_seconds)


def stop_after_a_step(task: str, done: int, total: int, figures: Mapping[str, float] | None = None) -> None:
    if done == 2:
        raise KeyboardInterrupt(task, total, figures)


STAGES: list[Callable[[Run], Mapping[str, Tensor]]] = [
    lambda run: stage_1("moco", run),
    lambda run: stage_2(run).heads.state_dict(),
    lambda run: stage_3(run, algorithm="freematch").encoder.module.state_dict(),
]


@pytest.mark.parametrize("stage", STAGES, ids=["1", "2", "3"])
def test_a_stopped_run_resumes_there(
    stage: Callable[[Run], Mapping[str, Tensor]], other_device: Run, tmp_path: Path
) -> None:
    whole = stage(other_device)
    with pytest.raises(KeyboardInterrupt):
        stage(SavesOften(folder=tmp_path, device=DEVICE, progress=stop_after_a_step))
    resumed = stage(other_device.with_folder(tmp_path))
    assert all(torch.equal(one.cpu(), other.cpu()) for one, other in zip(whole.values(), resumed.values(), strict=True))


def test_the_time_of_stage_3_is_estimated_there(other_device: Run) -> None:
    settings = JointSettings(steps=10, labeled=6, unlabeled=12)
    assert estimated_seconds(encoder_on(DEVICE), settings, clusters=3, images=48, device=other_device.device) > 0


def test_neighbors_are_found_there(other_device: Run) -> None:
    features = torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    there, here = nearest(features.to(other_device.device), 5), nearest(features, 5)
    assert there.index.device == DEVICE
    assert torch.equal(there.index.cpu(), here.index)


def test_a_model_predicts_there(other_device: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = encoder_on(torch.device("cpu"))
    save_network(tmp_path / "encoder.safetensors", encoder.module, CARD)
    encoder = load_trained(tmp_path / "encoder.safetensors")
    features = encode_plain(encoder, IMAGES)
    head = Head(encoder.features, 3)
    bank = build_bank(features, probabilities(head, features).argmax(dim=1), clusters=3, neighbors=5, seed=0)
    model = TrainedModel(encoder, head, bank, threshold=0.5)
    model.save(tmp_path / "model")
    monkeypatch.setattr("spice.stages.model.choose_device", torch.device)
    there = TrainedModel.load(tmp_path / "model", device=other_device.device.type)
    assert isinstance(there.encoder, TorchEncoder)
    assert there.encoder.device == DEVICE
    found, expected = (one.predict_features(encode_plain(one.encoder, IMAGES)) for one in (there, model))
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-3)
    there.save(tmp_path / "again")
    assert (tmp_path / "again" / "encoder.safetensors").read_bytes() == (
        tmp_path / "model" / "encoder.safetensors"
    ).read_bytes()
    assert there.encoder.feature_map(torch.zeros(1, 3, 16, 16)).device == DEVICE


def test_processes_exchange_what_is_on_their_device(other_device: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nccl requires. Images of a batch and measured times are on the CPU and return there."""

    def all_gather(parts: list[Tensor], own: Tensor) -> None:
        assert all(part.device == DEVICE for part in [*parts, own])
        for part in parts:
            part.copy_(own)

    monkeypatch.setattr(torch.distributed, "all_gather", all_gather)
    two = Processes(0, 2, other_device.device)
    assert two.gather(torch.tensor([3, 4])).tolist() == [3, 3, 4, 4]
    assert two.gather(torch.tensor([3, 4])).device.type == "cpu"
    assert two.gather(torch.ones(2, device=DEVICE)).device == DEVICE


def test_a_whole_run(other_device: Run, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spice.pipeline.commands.choose_device", lambda _: other_device.device)
    joint = JointSettings(steps=2, labeled=8, unlabeled=8, learning_rate=1e-3)
    settings = tiny_stages(feature_epochs=2, heads=4, epochs=4, threshold=0.1, joint=joint)
    summary = cluster(shapes, settings, tmp_path / "run")
    assert summary.joint is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whole", "semi-supervised", "ablation"])  # the others repeat their methods
def test_a_table_of_the_benchmark(
    name: str, other_device: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spice.benchmark.tables.run.choose_device", lambda _: other_device.device)
    for rival in (scan, temi):
        monkeypatch.setattr(rival, "EPOCHS", 2)
        monkeypatch.setattr(rival, "LEAST_STEPS", 4)
    cells = measured(Selection(TABLES[name], "smoke", [0], [], []), tmp_path)
    assert [cell.method for cell in cells] == list(TABLES[name].methods)


# Half precision, with that of a CPU.


@pytest.fixture(params=[torch.bfloat16, torch.float16])
def half(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.dtype]:
    monkeypatch.setattr(devices, "precision", lambda _: request.param)
    # With AMX, oneDNN's gradient of a convolution to a map of 1 x 1 is sometimes NaN in bfloat16.
    with torch.backends.mkldnn.flags(enabled=False):
        yield request.param


def test_stages_in_half_precision(half: torch.dtype, tmp_path: Path) -> None:
    run = Run(folder=tmp_path)
    seen: set[torch.dtype] = set()

    def note(module: nn.Module, _: object, result: Tensor) -> None:
        if isinstance(module, nn.Conv2d) and module.training:
            seen.add(result.dtype)

    for method in ("moco", "simclr", "byol"):
        with register_module_forward_hook(note):
            trained = stage_1(method, run.with_folder(tmp_path / method))
        assert seen == {half}
        assert all(weights.dtype != half and weights.isfinite().all() for weights in trained.values())
    for algorithm in ("fixmatch", "freematch"):
        found = stage_3(run.with_folder(tmp_path / algorithm), algorithm=algorithm)
        assert found.probs.dtype == torch.float32
        assert found.features.isfinite().all()
        again = stage_3(run.with_folder(tmp_path / algorithm), algorithm=algorithm)  # from the last checkpoint
        assert torch.equal(found.probs, again.probs)


def test_networks_run_in_half_precision_and_results_are_single(
    half: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.dtype] = []
    monkeypatch.setattr(TorchEncoder, "_current_session", lambda _: None)  # as on a GPU
    encoder = encoder_on(torch.device("cpu"))
    encoder.module.register_forward_hook(lambda *call: seen.append(call[-1].dtype))
    assert encoder.encode(torch.zeros(2, 3, 16, 16)).dtype == torch.float32
    assert encoder.feature_map(torch.zeros(2, 3, 16, 16)).dtype == torch.float32
    assert seen == [half]
    images, labels = torch.zeros(2, 3, 16, 16), torch.zeros(2, dtype=torch.long)
    batch = Batch(encoder.module, encoder.module, images, labels, (), 0, 1, torch.Generator())
    assert batch.logits(images)[0].dtype == torch.float32
    assert seen == [half, half]


def test_the_loss_is_scaled_in_float16_only(half: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale, which training changes, is restored from the checkpoint."""
    made: list[GradScaler] = []

    def scaler(device: str, *, enabled: bool) -> GradScaler:
        made.append(GradScaler(device, enabled=enabled, init_scale=4.0))  # so that no step overflows
        return made[-1]

    monkeypatch.setattr(devices, "GradScaler", scaler)
    for number in (0, 2):  # stages 1 and 3
        for _ in range(2):  # the second time from the last checkpoint
            STAGES[number](Run(folder=tmp_path / str(number)))
        trained, resumed = (each for each in made[-2:])
        assert trained.is_enabled() == (half == torch.float16)
        assert trained.state_dict() == resumed.state_dict()
        assert not trained.is_enabled() or trained.state_dict()["_growth_tracker"] > 0, "its steps were counted"


# On a CPU nothing is cast, scaled or pinned. On a GPU, torch is called.


def test_on_a_cpu_nothing_is_cast_scaled_or_copied() -> None:
    cpu, image = torch.device("cpu"), torch.zeros(1, 3, 4, 4)
    with devices.autocast(cpu):
        assert nn.Conv2d(3, 2, 3)(image).dtype == torch.float32
        assert not torch.is_autocast_enabled("cpu")
    assert not grad_scaler(cpu).is_enabled()
    assert to_device(image, cpu) is image


def test_a_gpu_copies_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device", MagicMock())
    gpu = torch.device("cuda", 1)
    tensor = MagicMock(device=torch.device("cpu"))
    assert to_device(tensor, gpu) is tensor.pin_memory().to.return_value
    tensor.pin_memory().to.assert_called_once_with(gpu, non_blocking=True)
    on_gpu = MagicMock(device=gpu)
    to_device(on_gpu, gpu)
    on_gpu.pin_memory.assert_not_called()


@pytest.mark.parametrize(("supported", "expected"), [(True, torch.bfloat16), (False, torch.float16)])
def test_a_gpu_without_bfloat16_uses_float16(
    supported: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device", MagicMock())
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda *, including_emulation: supported and not including_emulation
    )
    assert devices.precision(torch.device("cuda", 0)) == expected
    assert devices.precision(torch.device("mps")) == torch.float32
