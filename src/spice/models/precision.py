"""Whether to run a frozen encoder in 8-bit integers, decided by a trial of about a second on the user's images."""

import time

from torch import Tensor
from torch.nn import functional as F

from spice.engine.parallel import one_thread
from spice.models.encoders import Encoder, TorchEncoder
from spice.models.int8 import has_int8
from spice.settings import FixedPrecision

# Integers must be this many times as fast. Processors with instructions for them reach 2 or more, others 1 or less, so
# the choice is always the same on a machine.
LEAST_SPEEDUP = 1.3
# Mean cosine with the float features, at least. It was 0.980 or more on all collections measured, and is far lower on
# processors whose 16-bit sums overflow.
LEAST_COSINE = 0.96
ROUNDS, IMAGES = 3, 8


def faster_precision(encoder: Encoder, images: Tensor) -> FixedPrecision:
    """ "int8" if it is faster on these normalized images and gives nearly the same features, else "float32"."""
    if not isinstance(encoder, TorchEncoder) or encoder.device.type != "cpu" or not has_int8(encoder.module):
        return "float32"
    candidates: dict[FixedPrecision, TorchEncoder] = {"float32": encoder, "int8": encoder.with_precision("int8")}
    with one_thread():  # so that all work is done in this thread, which is timed
        features = {precision: one.encode(images) for precision, one in candidates.items()}
        cosine = F.cosine_similarity(features["float32"], features["int8"]).mean().item()
        seconds = {precision: [_seconds(one, images) for _ in range(ROUNDS)] for precision, one in candidates.items()}
    faster = min(seconds["float32"]) >= LEAST_SPEEDUP * min(seconds["int8"])
    return "int8" if faster and cosine >= LEAST_COSINE else "float32"


def _seconds(encoder: TorchEncoder, images: Tensor) -> float:
    started = time.thread_time()  # not affected by other programs
    encoder.encode(images)
    return time.thread_time() - started
