"""Health in cases with a known value."""

import math

import pytest
import torch
import torch.nn.functional as F

from spice.stages.features import health


def test_alignment_is_zero_for_equal_views_and_four_for_opposite_views() -> None:
    views = F.normalize(torch.randn(10, 4), dim=1)
    assert health.alignment(views, views) == 0.0
    assert health.alignment(views, -views) == pytest.approx(4.0)


def test_uniformity_is_zero_for_a_point_and_known_for_four_corners() -> None:
    assert health.uniformity(torch.ones(5, 3) / 3**0.5) == pytest.approx(0.0, abs=1e-5)
    corners = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    # From each corner, two others have squared distance 2 and one has 4.
    assert health.uniformity(corners) == pytest.approx(math.log((2 * math.exp(-4) + math.exp(-8)) / 3), rel=1e-5)


def test_collapse_counts_directions_in_which_nothing_varies() -> None:
    torch.manual_seed(0)
    three = torch.randn(100, 3) @ torch.randn(3, 12) + 5.0
    assert health.collapsed(three) == pytest.approx(9 / 12)
    assert health.collapsed(torch.randn(100, 12)) == 0.0
    assert health.collapsed(torch.ones(100, 12)) == 1.0
    assert health.collapsed(torch.randn(5, 12)) == 0.0


def test_health_is_measured_on_the_last_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "RECENT_IMAGES", 8)
    monitor = health.HealthMonitor()
    for _ in range(5):
        monitor.update(torch.ones(4, 3), *(torch.ones(4, 2) / 2**0.5 for _ in range(2)))
    assert len(monitor.recent) == 2
    for _ in range(2):
        unit = F.normalize(torch.randn(4, 2), dim=1)
        monitor.update(torch.randn(4, 3), unit, unit)
    assert monitor.compute().collapsed == 0.0
    assert str(monitor.compute()).startswith("alignment 0.000, uniformity ")
