"""The projection head P of contrastive learning: features to the space of the loss (paper III-A)."""

import torch.nn.functional as F
from torch import Tensor, nn


class Projection(nn.Module):
    """Two layers with a ReLU between (MoCo-v2; no batch norm unless asked for), then unit length.

    BYOL and SimCLR put a batch norm after the first layer; BYOL compares predictions whose length it removes itself.
    """

    def __init__(self, features: int, hidden: int, out: int, *, norm: bool = False, unit: bool = True) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, hidden, bias=not norm)
        self.norm = nn.BatchNorm1d(hidden) if norm else nn.Identity()
        self.out = nn.Linear(hidden, out)
        self.unit = unit

    def forward(self, features: Tensor) -> Tensor:
        """(B, D) -> (B, out)."""
        projected: Tensor = self.out(F.relu(self.norm(self.hidden(features))))
        return F.normalize(projected, dim=1) if self.unit else projected
