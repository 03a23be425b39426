"""Stage 1 under torchrun: two real processes, connected over loopback, compared with one.

Batch norm sees a process's own images, so runs are equal only for networks without it: here every batch norm is
replaced by a group norm, and everything else (views, gradients, queue, shuffling) must then agree.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path

import torch
from torch import nn

from spice.randomness import generator
from spice.engine.processes import join_processes
from spice.engine.run import Run
from spice.settings import FeatureSettings
from spice.stages.features import train as features


class Stopped(Exception):
    pass


class Noise:
    size, channels = 8, 3

    def __init__(self, stop_after=None):
        self.pixels = torch.randint(0, 256, (32, 3, 8, 8), dtype=torch.uint8, generator=generator(0, "noise"))
        self.left = stop_after

    def __len__(self):
        return len(self.pixels)

    def take(self, positions):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Stopped
        return self.pixels[positions]


def without_batch_norm_(module):
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d):
            setattr(module, name, nn.GroupNorm(1, child.num_features))
        else:
            without_batch_norm_(child)
    return module


def settings(method):
    return FeatureSettings(
        method=method, network="resnet10", width=4, batch=8, epochs=2, projection=6, queue=24, momentum=0.9
    )


def same(left, right):
    pairs = zip(left.state_dict().values(), right.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


class SavesOften(Run):
    def checkpoints(self, identity):
        return super().checkpoints(identity, every_seconds=0.0)


original = features.build_pretext
features.build_pretext = lambda *arguments, **named: without_batch_norm_(original(*arguments, **named))
folder = Path(sys.argv[1])
with join_processes(torch.device("cpu")) as processes:
    for method in ("moco", "simclr", "byol"):
        both = features.train_features(Noise(), settings(method), Run(processes=processes)).network
        one = features.train_features(Noise(), settings(method), Run()).network
        start = features.build_pretext(Noise(), settings(method), features.schedule_for(32, settings(method)), Run())
        assert not same(one, start.network), "nothing was learned, so the comparison is empty"
        for name, parameter in both.named_parameters():
            torch.testing.assert_close(parameter, one.get_parameter(name), rtol=1e-3, atol=1e-5, msg=f"{method} {name}")
            shared = processes.gather(parameter.reshape(1, -1))
            assert torch.equal(shared[0], shared[1]), f"{method} {name}: processes drift apart"

    # With batch norm, as users run it: stopped and resumed, two processes give the same bits.
    features.build_pretext = original
    chosen = settings("moco").model_copy(update={"whitening": 0.5})
    whole = features.train_features(Noise(), chosen, Run(processes=processes)).network
    shared = processes.gather(whole.linear.weight.reshape(1, -1))
    assert torch.equal(shared[0], shared[1]), "features are whitened differently"
    for stop in (3, 2):
        try:
            features.train_features(Noise(stop), chosen, SavesOften(folder=folder, processes=processes))
        except Stopped:
            pass
        processes.barrier()
    again = features.train_features(Noise(), chosen, Run(folder=folder, processes=processes)).network
    assert same(whole, again)

    # Shuffling: each key is normalized among the images of its random group, and returns to its own image.
    task = original(Noise(), settings("moco"), features.schedule_for(32, settings("moco")), Run(processes=processes))
    task.train()
    views = torch.randn(8, 3, 8, 8, generator=generator(0, "views"))
    with torch.no_grad():
        keys = task._keys(views[processes.rank :: 2], 5)
        order = torch.randperm(8, generator=generator(0, "features", "shuffle", 5))
        expected = torch.empty(8, 6)
        for group in (order[0::2], order[1::2]):
            expected[group] = task._projected(views[group])
    torch.testing.assert_close(keys, expected[processes.rank :: 2])
    assert sorted(order[0::2].tolist()) not in ([0, 2, 4, 6], [1, 3, 5, 7]), "nothing was shuffled"
    print("all right", flush=True)
"""


@pytest.mark.slow
def test_two_processes_train_as_one(two_processes: Callable[..., str], tmp_path: Path) -> None:
    assert two_processes(SCRIPT, str(tmp_path / "checkpoints")).count("all right") == 2
