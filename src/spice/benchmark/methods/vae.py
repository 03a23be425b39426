"""VAE: k-means on the mean codes of a variational autoencoder (Kingma and Welling, 2014).

Loss of an image: |x - x'|^2 / 2, summed over pixels (a Gaussian of unit variance), plus
KL(N(mean, variance) || N(0, 1)), summed over the code.

Shapes: B images in a batch, Z length of a code.
"""

import torch
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
    with seeded(seed, "vae"):
        network = Autoencoder(settings, channels=pixels.channels, codes=2 * settings.code).to(device)

    def loss(batch: Tensor, random: torch.Generator) -> Tensor:
        mean, log_variance = network.encode(batch).chunk(2, dim=1)  # (B, Z) each
        noise = torch.randn(mean.shape, generator=random).to(device)
        rebuilt = network.decode(mean + noise * (log_variance / 2).exp())
        return (squared_error(rebuilt, batch) + divergence(mean, log_variance)).mean()

    train(network, loss, pixels, settings, seed=seed, purpose="vae", progress=progress)

    def mean_code(batch: Tensor) -> Tensor:
        code: Tensor = network.encode(batch)[:, : settings.code]
        return code

    return kmeans_labels(codes_of(mean_code, pixels, device=device), clusters, seed=seed)


def squared_error(rebuilt: Tensor, images: Tensor) -> Tensor:
    """Half the squared distance of each image to what was rebuilt of it, (B,)."""
    return 0.5 * (rebuilt - images).square().flatten(start_dim=1).sum(dim=1)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)) of each code: (B, Z), (B, Z) -> (B,)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(dim=1)
