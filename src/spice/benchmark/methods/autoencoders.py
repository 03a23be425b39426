"""AE, DAE, VAE and DEC, older rivals of Table II: clusters of the codes that an autoencoder learns.

Shapes: N images, B of them in a batch, C channels, S pixels on a side, Z length of a code, K clusters.
"""

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor, nn

from spice.augment import Plain
from spice.benchmark.choice import AutoencoderSettings
from spice.benchmark.rivals.classic import Labels, kmeans_labels
from spice.data.batches import Batch, batches
from spice.data.images import Images
from spice.engine.run import Run
from spice.randomness import seeded
from spice.settings import IMAGENET, IMAGENET_GRAY, AugmentSettings

CHUNK = 512
DROPPED = 0.2  # DAE: share of the pixels that are set to the mean color
ENOUGH = 0.001  # DEC's published tolerance: the share of labels that still change


class Autoencoder(nn.Module):
    """AE: three convolutions down to a code and the same way back, to rebuild the image (after Bengio et al., 2007)."""

    name = "autoencoder"
    outputs = 1  # of the encoder, for each number of a code

    def __init__(self, settings: AutoencoderSettings, *, channels: int) -> None:
        super().__init__()
        if settings.size % 8:
            raise ValueError(f"the autoencoder's images must be a multiple of 8 pixels wide, not {settings.size}")
        width, side = settings.width, settings.size // 8
        flat = 4 * width * side * side
        self.encode = nn.Sequential(
            *_block(nn.Conv2d, channels, width),
            *_block(nn.Conv2d, width, 2 * width),
            *_block(nn.Conv2d, 2 * width, 4 * width),
            nn.Flatten(),
            nn.Linear(flat, self.outputs * settings.code),
        )
        self.decode = nn.Sequential(
            nn.Linear(settings.code, flat),
            nn.Unflatten(1, (4 * width, side, side)),
            *_block(nn.ConvTranspose2d, 4 * width, 2 * width),
            *_block(nn.ConvTranspose2d, 2 * width, width),
            nn.ConvTranspose2d(width, channels, 4, stride=2, padding=1),
        )

    def loss(self, images: Tensor, random: torch.Generator) -> Tensor:  # noqa: ARG002 - nothing here is random
        """Of a batch (B, C, S, S)."""
        return F.mse_loss(self.decode(self.encode(images)), images)

    def codes(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, Z)."""
        codes: Tensor = self.encode(images)
        return codes


class DenoisingAutoencoder(Autoencoder):
    """DAE: rebuilds images from noisy ones (after Vincent et al., 2010).

    The published one is stacked, layer upon layer; this one is trained as a whole, as is usual since batch norm.
    """

    name = "denoising autoencoder"

    def loss(self, images: Tensor, random: torch.Generator) -> Tensor:
        kept = torch.rand(images.shape[0], 1, *images.shape[2:], generator=random) >= DROPPED  # (B, 1, S, S)
        return F.mse_loss(self.decode(self.encode(images * kept.to(images.device))), images)


class VariationalAutoencoder(Autoencoder):
    """VAE: a code is a Gaussian, and its mean is clustered (Kingma and Welling, 2014).

    Loss of an image: |x - x'|^2 / 2, summed over pixels (a Gaussian of unit variance), plus
    KL(N(mean, variance) || N(0, 1)), summed over the code.
    """

    name = "vae"
    outputs = 2  # mean and log-variance

    def loss(self, images: Tensor, random: torch.Generator) -> Tensor:
        mean, log_variance = self.encode(images).chunk(2, dim=1)  # (B, Z) each
        noise = torch.randn(mean.shape, generator=random).to(images.device)
        rebuilt = self.decode(mean + noise * (log_variance / 2).exp())
        return (squared_error(rebuilt, images) + divergence(mean, log_variance)).mean()

    def codes(self, images: Tensor) -> Tensor:
        return super().codes(images).chunk(2, dim=1)[0]


def squared_error(rebuilt: Tensor, images: Tensor) -> Tensor:
    """Half the squared distance of each image to what was rebuilt of it, (B,)."""
    return 0.5 * (rebuilt - images).square().flatten(start_dim=1).sum(dim=1)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)) of each code: (B, Z), (B, Z) -> (B,)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(dim=1)


def fit(kind: type[Autoencoder], images: Images, clusters: int, settings: AutoencoderSettings, run: Run) -> Labels:
    """Labels (N,) of images by k-means on their codes."""
    pixels = Pixels(images, settings, run)
    return kmeans_labels(_codes(_trained(kind, pixels), pixels).numpy(), clusters, seed=run.seed)


def fit_dec(images: Images, clusters: int, settings: AutoencoderSettings, run: Run) -> Labels:
    """Labels (N,) of images by DEC: codes and centers that sharpen their own soft assignments (Xie et al., 2016).

    First a denoising autoencoder, then, without its decoder: q_ik ~ 1 / (1 + |z_i - c_k|^2), a Student's t;
    p_ik ~ q_ik^2 / sum_i q_ik, which is sharper and evens out the clusters; and KL(p || q) is minimized by codes and
    centers, p being computed anew once an epoch, until hardly any label changes. The label is the cluster of the
    largest q.
    """
    pixels = Pixels(images, settings, run)
    network = _trained(DenoisingAutoencoder, pixels)
    start = KMeans(clusters, n_init=20, random_state=run.seed).fit(_codes(network, pixels).numpy())
    centers = nn.Parameter(torch.from_numpy(start.cluster_centers_).float().to(run.device))  # (K, Z)
    optimizer = torch.optim.Adam([*network.encode.parameters(), centers], lr=settings.learning_rate / 10)
    labels = torch.full((len(images),), -1)
    for epoch in range(settings.refining_epochs + 1):
        # The network stays in evaluation mode: batch-norm statistics are those of the autoencoder.
        soft = assignments(_codes(network, pixels), centers.detach().cpu())  # (N, K)
        changed = float((soft.argmax(dim=1) != labels).float().mean())
        labels = soft.argmax(dim=1)
        run.progress("dec", epoch, settings.refining_epochs, {"changed": changed})
        if changed < ENOUGH or epoch == settings.refining_epochs:
            break
        wanted = targets(soft)  # (N, K)
        for batch, some in pixels.epoch("dec", epoch):
            log_soft = assignments(network.encode(some), centers).log()  # (B, K)
            _step(optimizer, F.kl_div(log_soft, wanted[batch.images].to(run.device), reduction="batchmean"))
    return labels.numpy().astype(np.int64)


def assignments(codes: Tensor, centers: Tensor) -> Tensor:
    """DEC's q: (B, Z), (K, Z) -> (B, K)."""
    near = 1.0 / (1.0 + torch.cdist(codes, centers).square())
    return near / near.sum(dim=1, keepdim=True)


def targets(soft: Tensor) -> Tensor:
    """DEC's p of all images' q: (N, K) -> (N, K)."""
    sharp = soft.square() / soft.sum(dim=0)
    return sharp / sharp.sum(dim=1, keepdim=True)


class Pixels:
    """Images as the networks see them: normalized, at the autoencoder's size, on the run's device."""

    def __init__(self, images: Images, settings: AutoencoderSettings, run: Run) -> None:
        self.images, self.settings, self.run = images, settings, run
        normalization = IMAGENET_GRAY if images.channels == 1 else IMAGENET
        self.plain = Plain(AugmentSettings(), settings.size, normalization)
        self.batch = min(settings.batch, len(images))

    def take(self, positions: Tensor) -> Tensor:
        """(B,) -> (B, C, S, S)."""
        return self.plain(self.images.take(positions)).to(self.run.device)

    def epoch(self, stage: str, number: int) -> Iterator[tuple[Batch, Tensor]]:
        """All images once, in random order."""
        for batch in batches(len(self.images), self.batch, seed=self.run.seed, stage=stage, epoch=number):
            yield batch, self.take(batch.images)


def _trained(kind: type[Autoencoder], pixels: Pixels) -> Autoencoder:
    """An autoencoder, trained with Adam."""
    settings, run = pixels.settings, pixels.run
    with seeded(run.seed, kind.name):
        network = kind(settings, channels=pixels.images.channels).to(run.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    per_epoch = len(pixels.images) // pixels.batch
    for epoch in range(settings.epochs):
        for batch, images in pixels.epoch(kind.name, epoch):
            _step(optimizer, network.loss(images, run.generator(kind.name, "noise", epoch, batch.number)))
            run.progress(kind.name, epoch * per_epoch + batch.number + 1, settings.epochs * per_epoch)
    return network.eval()


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


@torch.no_grad()
def _codes(network: Autoencoder, pixels: Pixels) -> Tensor:
    """The code of every image, (N, Z)."""
    parts = torch.arange(len(pixels.images)).split(CHUNK)  # type: ignore[no-untyped-call]
    return torch.cat([network.codes(pixels.take(part)).cpu() for part in parts])


def _block(layer: type[nn.Conv2d] | type[nn.ConvTranspose2d], width_in: int, width: int) -> tuple[nn.Module, ...]:
    """Halves or doubles the side."""
    return layer(width_in, width, 4, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()
