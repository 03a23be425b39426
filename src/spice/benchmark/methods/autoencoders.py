"""AE, SDAE, VAE and DEC, the older rivals of Table II: clusters of an autoencoder's codes.

Shapes: N images, B of them in a batch, C channels, S pixels on a side, Z code width, K clusters.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor, nn

from spice.benchmark.choice import AutoencoderSettings
from spice.benchmark.deep.objective import Epoch, Objective, Pictures, Schedule, Seen, train
from spice.benchmark.rivals.classic import Labels, kmeans_labels
from spice.data.images import Images
from spice.engine.run import Run
from spice.randomness import seeded
from spice.settings import IMAGENET, IMAGENET_GRAY, AugmentSettings

DROPOUT = 0.2  # SDAE: share of a layer's inputs that are set to zero
TOLERANCE = 0.001  # DEC ends when a smaller share of the labels changes


class Autoencoder(Objective):
    """AE: three convolutions and a linear layer to a code, and back to the image (after Bengio et al., 2007)."""

    views = ("plain",)
    outputs = 1  # of the encoder, per dimension of the code

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

    def loss(self, seen: Seen) -> Tensor:
        """Mean squared error over all pixels."""
        (images,) = seen.views
        return F.mse_loss(self.decode(self.encode(images)), images)

    def codes(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, Z)."""
        codes: Tensor = self.encode(images)
        return codes


class VariationalAutoencoder(Autoencoder):
    """VAE: a code is a Gaussian, and its mean is clustered (Kingma and Welling, 2014).

    Loss of an image: |x - x'|^2 / 2, summed over pixels (a Gaussian of unit variance), plus
    KL(N(mean, variance) || N(0, 1)), summed over the code.
    """

    outputs = 2  # mean and log-variance

    def loss(self, seen: Seen) -> Tensor:
        (images,) = seen.views
        mean, log_variance = self.encode(images).chunk(2, dim=1)  # (B, Z) each
        noise = torch.randn(mean.shape, generator=seen.random).to(images.device)
        reconstruction = self.decode(mean + noise * (log_variance / 2).exp())
        return (squared_error(reconstruction, images) + divergence(mean, log_variance)).mean()

    def codes(self, images: Tensor) -> Tensor:
        return super().codes(images).chunk(2, dim=1)[0]


def squared_error(reconstruction: Tensor, images: Tensor) -> Tensor:
    """Half the squared distance of each image to its reconstruction, (B,)."""
    return 0.5 * (reconstruction - images).square().flatten(start_dim=1).sum(dim=1)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)) of each code: (B, Z), (B, Z) -> (B,)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(dim=1)


class DenoisingLayer(Objective):
    """One layer of SDAE, which reconstructs the output of the layers before it from inputs with dropout."""

    views = ("plain",)

    def __init__(self, before: nn.Module, encode: nn.Module, decode: nn.Module) -> None:
        super().__init__()
        self.before, self.encode, self.decode = before, encode, decode

    def loss(self, seen: Seen) -> Tensor:
        """Mean squared error over the layer's inputs."""
        with torch.no_grad():  # the layers before it have been trained
            inputs = self.before(seen.views[0])
        code = self.encode(dropped(inputs, seen.random))
        return F.mse_loss(self.decode(dropped(code, seen.random)), inputs)


class StackedAutoencoder(Autoencoder):
    """SDAE: fully connected layers, each trained as a denoising autoencoder on those before (Vincent et al., 2010).

    Then all layers are trained together, without noise, for twice as long. Layers, noise, steps and batches are those
    of DEC (its section 4.3), which starts from this network; so the code and the reconstruction have no ReLU. Trained
    with Adam, where DEC has SGD with a learning rate of 0.1, divided by 10 every 20,000 steps.
    """

    def __init__(self, settings: AutoencoderSettings, *, channels: int) -> None:
        nn.Module.__init__(self)
        shape = (channels, settings.size, settings.size)
        widths = [channels * settings.size**2, *settings.layers]
        last = len(settings.layers) - 1
        down = [_layer(*pair, relu=place < last) for place, pair in enumerate(pairwise(widths))]
        up = [_layer(wide, narrow, relu=place > 0) for place, (narrow, wide) in enumerate(pairwise(widths))]
        self.encode = nn.Sequential(nn.Flatten(), *down)
        self.decode = nn.Sequential(*reversed(up), nn.Unflatten(1, shape))

    def layers(self) -> list[DenoisingLayer]:
        """Its layers from the image to the code, each with those before it and with its decoding layer."""
        down, up = list(self.encode)[1:], list(self.decode)[-2::-1]
        pairs = enumerate(zip(down, up, strict=True), start=1)
        return [DenoisingLayer(self.encode[:place], one, other) for place, (one, other) in pairs]


def dropped(values: Tensor, random: torch.Generator) -> Tensor:
    """Dropout: a random fifth of the values are set to zero, and the others are scaled up."""
    kept = torch.rand(values.shape, generator=random) >= DROPOUT
    return values * kept.to(values.device) / (1.0 - DROPOUT)


def fit(kind: type[Autoencoder], images: Images, clusters: int, settings: AutoencoderSettings, run: Run) -> Labels:
    """Labels (N,) of images by k-means on their codes."""
    pictures = pictures_of(images, settings)
    codes = pictures.outputs(trained(kind, pictures, settings, run).codes, run.device)
    return kmeans_labels(codes.numpy(), clusters, seed=run.seed)


def trained(kind: type[Autoencoder], pictures: Pictures, settings: AutoencoderSettings, run: Run) -> Autoencoder:
    """An autoencoder, trained; a stacked one first layer by layer."""
    schedule = Schedule(settings.epochs, settings.batch, settings.learning_rate)
    with seeded(run.seed, kind.__name__):
        network = kind(settings, channels=pictures.images.channels)
    if isinstance(network, StackedAutoencoder):
        for layer in network.layers():
            train(layer, pictures, schedule, run)
        schedule = schedule._replace(epochs=2 * settings.epochs)
    train(network, pictures, schedule, run)
    return network


def fit_dec(images: Images, clusters: int, settings: AutoencoderSettings, run: Run) -> Labels:
    """Labels (N,) of images by DEC, after SDAE and k-means on its codes."""
    pictures = pictures_of(images, settings)
    network = trained(StackedAutoencoder, pictures, settings, run)
    codes = pictures.outputs(network.codes, run.device).numpy()
    start = KMeans(clusters, n_init=20, random_state=run.seed).fit(codes)
    objective = DEC(network.encode, torch.from_numpy(start.cluster_centers_).float(), len(images))
    train(objective, pictures, Schedule(settings.refining_epochs, settings.batch, settings.learning_rate / 10), run)
    return pictures.labels(objective, run.device)


class DEC(Objective):
    """Codes and centers learn sharpened soft assignments (Xie et al., 2016).

    q_ik ~ 1 / (1 + |z_i - c_k|^2) is Student's t. The target p_ik ~ q_ik^2 / sum_i q_ik is sharper and has more even
    clusters. Codes and centers minimize KL(p || q). p is recomputed once per epoch, until less than 0.1 % of the labels
    change. The label is the cluster with the largest q. Tolerance and 20 restarts of k-means are those of the paper's
    section 4.3, which has SGD with a learning rate of 0.01.
    """

    views = ("plain",)
    targets: Tensor  # p, (N, K)
    labels: Tensor  # at the start of the epoch, (N,)

    def __init__(self, encode: nn.Module, centers: Tensor, images: int) -> None:
        super().__init__()
        self.encode, self.centers = encode, nn.Parameter(centers)  # (K, Z)
        self.register_buffer("targets", torch.zeros(images, len(centers)))
        self.register_buffer("labels", torch.full((images,), -1))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> q (B, K)."""
        return assignments(self.encode(images), self.centers)

    def begin_(self, epoch: Epoch, pictures: Pictures, device: torch.device) -> bool:  # noqa: ARG002
        """Recompute p; False if too few labels have changed."""
        soft = pictures.outputs(self, device).to(device)  # (N, K)
        changed = float((soft.argmax(dim=1) != self.labels).float().mean())
        self.labels.copy_(soft.argmax(dim=1))
        self.targets.copy_(sharpened(soft))
        return changed >= TOLERANCE

    def loss(self, seen: Seen) -> Tensor:
        """KL(p || q) of the batch."""
        targets = self.targets[seen.images.to(self.targets.device)]
        return F.kl_div(self(seen.views[0]).log(), targets, reduction="batchmean")


def assignments(codes: Tensor, centers: Tensor) -> Tensor:
    """DEC's q: (B, Z), (K, Z) -> (B, K)."""
    student_t = 1.0 / (1.0 + torch.cdist(codes, centers).square())
    return student_t / student_t.sum(dim=1, keepdim=True)


def sharpened(soft: Tensor) -> Tensor:
    """DEC's p, from the q of all images: (N, K) -> (N, K)."""
    sharp = soft.square() / soft.sum(dim=0)
    return sharp / sharp.sum(dim=1, keepdim=True)


def pictures_of(images: Images, settings: AutoencoderSettings) -> Pictures:
    """Plain images, resized for an autoencoder."""
    normalization = IMAGENET_GRAY if images.channels == 1 else IMAGENET
    return Pictures(images, AugmentSettings(), settings.size, normalization)


def _layer(width_in: int, width: int, *, relu: bool) -> nn.Module:
    return nn.Sequential(nn.Linear(width_in, width), nn.ReLU()) if relu else nn.Linear(width_in, width)


def _block(layer: type[nn.Conv2d] | type[nn.ConvTranspose2d], width_in: int, width: int) -> tuple[nn.Module, ...]:
    """A layer that halves or doubles the side, batch norm and ReLU."""
    return layer(width_in, width, 4, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()
