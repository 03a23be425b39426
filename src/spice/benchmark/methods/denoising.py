"""DAE: k-means on the codes of an autoencoder that rebuilds images from noisy ones (after Vincent et al., 2010).

The published one is stacked, layer upon layer; this one is trained as a whole, as is usual since batch norm.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from spice.benchmark.choice import AutoencoderSettings
from spice.benchmark.methods.codes import Autoencoder, Images, Labels, Pixels, codes_of, kmeans_labels, train
from spice.progress import Progress, silent
from spice.randomness import seeded

CPU = torch.device("cpu")
DROPPED = 0.2  # share of the pixels that are set to the mean color


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
    network = trained(pixels, settings, seed=seed, device=device, progress=progress)
    return kmeans_labels(codes_of(network.encode, pixels, device=device), clusters, seed=seed)


def trained(
    pixels: Pixels, settings: AutoencoderSettings, *, seed: int, device: torch.device, progress: Progress
) -> Autoencoder:
    """The autoencoder; DEC begins with it too."""
    with seeded(seed, "denoising autoencoder"):
        network = Autoencoder(settings, channels=pixels.channels).to(device)

    def loss(batch: Tensor, random: torch.Generator) -> Tensor:
        kept = torch.rand(batch.shape[0], 1, *batch.shape[2:], generator=random) >= DROPPED  # (B, 1, S, S)
        return F.mse_loss(network(batch * kept.to(device)), batch)

    train(network, loss, pixels, settings, seed=seed, purpose="denoising autoencoder", progress=progress)
    return network
