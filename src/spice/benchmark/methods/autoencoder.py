"""AE: k-means on the codes of an autoencoder, which learns to rebuild its images (after Bengio et al., 2007)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.choice import AutoencoderSettings
from spice.benchmark.methods.codes import Autoencoder, Images, Labels, Pixels, codes_of, kmeans_labels, train
from spice.progress import Progress, silent
from spice.randomness import seeded

CPU = torch.device("cpu")


def fit(
    images: Images,
    clusters: int,
    *,
    seed: int,
    settings: AutoencoderSettings,
    device: torch.device = CPU,
    progress: Progress = silent,
) -> Labels:
    """Labels (N,) of images."""
    pixels = Pixels(images, settings.size)
    with seeded(seed, "autoencoder"):
        network = Autoencoder(settings, channels=pixels.channels).to(device)

    def loss(batch: Tensor, random: torch.Generator) -> Tensor:  # noqa: ARG001 - nothing here is random
        return F.mse_loss(network(batch), batch)

    train(network, loss, pixels, settings, seed=seed, purpose="autoencoder", progress=progress)
    return kmeans_labels(codes_of(network.encode, pixels, device=device), clusters, seed=seed)
