"""`spice open` on a run of the real pipeline."""

import time
from pathlib import Path

import pytest
from serving import opened

from spice.cli.explore import _tools
from spice.progress import silent
from spice.runs import open_result


def test_what_the_browser_starts_computes_on_the_chosen_device(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []

    def started(*_: object, device: str, **__: object) -> None:
        chosen.append(device)
        raise InterruptedError

    for name in ("learn.propose", "regroup", "refine"):
        monkeypatch.setattr(f"spice.pipeline.{name}", started)
    tools = _tools(Path("run"), "cuda:1")
    for start in (tools.learn, tools.refine, lambda progress: tools.regroup(3, False, progress)):
        with pytest.raises(InterruptedError):
            start(silent)
    assert chosen == ["cuda:1"] * 3


@pytest.mark.slow
def test_an_example_finds_its_own_image_first(session_run: Path, shapes: Path) -> None:
    labels = open_result(session_run).labels
    with opened(session_run) as explorer:
        explorer.enter()
        content = (shapes / labels.path[5]).read_bytes()
        raw = {"Content-Type": "application/octet-stream"}
        found = explorer.request("/api/example", content, headers=raw).json
        assert found["rows"][0] == 5
        assert found["similarity"][0] > 0.99
        assert found["similarity"] == sorted(found["similarity"], reverse=True)
        same = [labels.cluster[row] == labels.cluster[5] for row in found["rows"][:5]]
        assert sum(same) >= 4
        refused = explorer.request("/api/example", b"not an image", headers=raw)
        assert refused.status == 422
        assert "cannot read the example image" in refused.json["error"]


@pytest.mark.slow
def test_learning_shows_what_would_move_before_it_counts(run: Path) -> None:
    with opened(run) as explorer:
        explorer.enter()
        version = explorer.state()["version"]
        assert explorer.request("/api/learn").json["moves"] is None
        labels = open_result(run).labels
        # A person splits a group by hand: some of its images belong to a new one.
        members = (labels.cluster == 0).nonzero()[0].tolist()
        state = explorer.edit({"kind": "move", "rows": members[:6], "group": None}).json
        before = open_result(run).groups
        assert explorer.request("/api/learn/start", {"version": state["version"]}).status == 200
        for _ in range(600):
            told = explorer.request("/api/learn").json
            if not told["running"]:
                break
            time.sleep(0.1)
        assert told["error"] is None
        moved = sum(move["count"] for move in told["moves"])
        assert (open_result(run).groups.group == before.group).all()  # nothing counts yet
        after = explorer.request("/api/learn/accept", {"version": state["version"]}).json
        groups = open_result(run).groups
        assert (groups.group != before.group).sum() == moved
        assert (groups.group[members[:6]] == before.group[members[:6]]).all()
        assert after["undo"]["kind"] == "learned"
        # One step takes it back; what was learned of an older state is refused.
        undone = explorer.request("/api/undo", {"version": after["version"]}).json
        assert (open_result(run).groups.group == before.group).all()
        assert explorer.request("/api/learn/accept", {"version": undone["version"]}).status == 409
        assert version != undone["version"]
        assert explorer.request("/api/learn/start", {"version": undone["version"]}).status == 200
        canceled = explorer.request("/api/learn/cancel", {"version": undone["version"]}).json
        assert (canceled["running"], canceled["moves"], canceled["error"]) == (False, None, None)
