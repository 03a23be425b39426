"""DEC: codes and centers that sharpen their own soft assignments (Xie et al., 2016).

First a denoising autoencoder, then, without its decoder: q_ik ~ 1 / (1 + |z_i - c_k|^2), a Student's t;
p_ik ~ q_ik^2 / sum_i q_ik, which is sharper and evens out the clusters; and KL(p || q) is minimized by codes and
centers, p being computed anew once an epoch, until hardly any label changes.

Shapes: N images, B of them in a batch, Z length of a code, K clusters.
"""

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn

from spice.benchmark.choice import AutoencoderSettings
from spice.benchmark.methods import denoising
from spice.benchmark.methods.codes import Autoencoder, Images, Labels, Pixels, codes_of
from spice.data.batches import batches
from spice.progress import Progress, silent

CPU = torch.device("cpu")
ENOUGH = 0.001  # the published tolerance: the share of labels that still change


def fit(
    images: Images,
    clusters: int,
    *,
    seed: int,
    settings: AutoencoderSettings,
    device: torch.device = CPU,
    progress: Progress = silent,
) -> Labels:
    """Labels (N,) of images: the cluster of the largest q."""
    pixels = Pixels(images, settings.size)
    network = denoising.trained(pixels, settings, seed=seed, device=device, progress=progress)
    codes = codes_of(network.encode, pixels, device=device)
    start = KMeans(clusters, n_init=20, random_state=seed).fit(codes.numpy())
    centers = nn.Parameter(torch.from_numpy(start.cluster_centers_).float().to(device))  # (K, Z)
    return _sharpened(network, centers, pixels, settings, seed=seed, progress=progress)


def assignments(codes: Tensor, centers: Tensor) -> Tensor:
    """q: (B, Z), (K, Z) -> (B, K)."""
    near = 1.0 / (1.0 + torch.cdist(codes, centers).square())
    return near / near.sum(dim=1, keepdim=True)


def targets(soft: Tensor) -> Tensor:
    """p of all images' q: (N, K) -> (N, K)."""
    sharp = soft.square() / soft.sum(dim=0)
    return sharp / sharp.sum(dim=1, keepdim=True)


def _sharpened(
    network: Autoencoder,
    centers: nn.Parameter,
    pixels: Pixels,
    settings: AutoencoderSettings,
    *,
    seed: int,
    progress: Progress,
) -> Labels:
    optimizer = torch.optim.Adam([*network.encode.parameters(), centers], lr=settings.learning_rate / 10)
    device, batch = centers.device, min(settings.batch, len(pixels))
    labels = torch.full((len(pixels),), -1)
    for epoch in range(settings.refining_epochs + 1):
        network.eval()  # batch-norm statistics stay those of the autoencoder
        soft = assignments(codes_of(network.encode, pixels, device=device), centers.detach().cpu())  # (N, K)
        changed = float((soft.argmax(dim=1) != labels).float().mean())
        labels = soft.argmax(dim=1)
        progress("dec", epoch, settings.refining_epochs, {"changed": changed})
        if changed < ENOUGH or epoch == settings.refining_epochs:
            break
        wanted = targets(soft)  # (N, K)
        for part in batches(len(pixels), batch, seed=seed, stage="dec", epoch=epoch):
            found = assignments(network.encode(pixels.take(part.images).to(device)), centers)
            loss = nn.functional.kl_div(found.log(), wanted[part.images].to(device), reduction="batchmean")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return labels.numpy().astype(np.int64)
