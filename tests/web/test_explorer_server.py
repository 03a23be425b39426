"""The explorer's server: who may talk to it, what it hands out, and that no acknowledged edit is ever lost."""

import subprocess
import sys
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from explored_runs import ROTATED, add_tree
from made_run import add_steps
from PIL import Image
from serving import NO_TOOLS, Explorer, opened, served

from spice.progress import Progress
from spice.runs import Result, RunFolder, edited_csv, open_result, read_manifest
from spice.runs.artifacts import CANDIDATES, FEATURES
from spice.runs.edits import read_edits
from spice.runs.records import CandidateCount, HowManyResult
from spice.web import groups
from spice.web.tools import Proposal

NOTHING = (
    b"Open the address that spice open printed.",
    b"This address has been used before. For a new one, run spice open again.",
)


def row_of(run: Result, ending: str) -> int:
    return next(row for row, path in enumerate(run.labels.path) if path.endswith(ending))


def test_it_opens_without_torch() -> None:
    script = "import sys, spice.web.app, spice.web.server, spice.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_address_works_once_and_becomes_a_cookie(explorer: Explorer) -> None:
    explorer.enter()
    assert explorer.request("/api/state").status == 200
    cookie, explorer.cookie = explorer.cookie, None
    assert explorer.request("/" + explorer.address.rpartition("/")[2]).status == 403
    explorer.cookie = cookie
    assert explorer.request("/" + explorer.address.rpartition("/")[2]).status == 303  # the same browser may come again


def test_merges_are_suggested_from_some_of_very_many_images(
    inside: Explorer, run: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    [merge] = inside.request("/api/state").json["merges"]
    assert (merge["first"], merge["second"]) == (0, 1)
    monkeypatch.setattr(groups, "_VOTERS", len(run.labels.path) // 2)
    [sampled] = inside.request("/api/state").json["merges"]
    assert (sampled["first"], sampled["second"], sampled["pairs"]) == (0, 1, merge["pairs"])
    assert 0 < abs(sampled["share"] - merge["share"]) < 0.15


def test_a_group_of_several_kinds_is_similar_to_an_image_of_one_of_them(inside: Explorer, run: Result) -> None:
    def at(degrees: float) -> list[float]:
        return [np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]

    # Group 1 is nearer to the image by its mean (45 degrees, not 60), but half of group 2 looks the same as the image.
    image, *others = np.flatnonzero(run.labels.cluster == 0)
    features = np.array([at(180), at(45), at(0), at(150)], dtype=np.float32)[run.labels.cluster]
    features[(run.labels.cluster == 2) & (run.labels.prototype_rank % 2 == 1)] = at(120)
    features[image] = at(0)
    np.save(run / FEATURES, features)
    assert inside.request(f"/api/similar?rows={image}").json["groups"] == [2, 1, 3, 0]  # it is not compared with itself
    everything = ",".join(map(str, [image, *others]))
    assert sorted(inside.request(f"/api/similar?rows={everything}").json["groups"]) == [1, 2, 3]


def test_without_the_token_there_is_nothing(explorer: Explorer) -> None:
    for path in ("/", "/api/state", "/api/paths", "/assets/main.js", "/?token=", "/?token=wrong"):
        answer = explorer.request(path)
        assert answer.status == 403
        assert answer.body in NOTHING
        guess = f"spice-{explorer.host.split(':')[1]}=guess"
        assert explorer.request(path, headers={"Cookie": guess}).status == 403


def test_other_hosts_and_origins_get_nothing(inside: Explorer) -> None:
    port = inside.host.split(":")[1]
    for headers in (
        {"Host": f"evil.example:{port}"},  # a name that an attacker's DNS leads to 127.0.0.1
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": f"http://127.0.0.1:{int(port) + 1}"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert inside.request("/api/state", headers=headers).status == 403, headers
    change = {"version": inside.state()["version"], "operation": {"kind": "name", "group": 0, "name": "x"}}
    assert inside.request("/api/edit", change, headers={"Origin": None}).status == 403
    assert inside.request("/api/edit", change, headers={"Content-Type": "text/plain"}).status == 415
    assert inside.request("/api/edit", b"[" * 100_000).status == 400
    assert inside.state()["undo"] is None
    assert inside.request("/api/edit", change).status == 200


def test_nothing_but_the_run_is_handed_out(inside: Explorer, run: Result) -> None:
    images = inside.state()["images"]
    for path in (
        "/assets/../app.py", "/assets/%2e%2e/app.py", "/assets/..%2fapp.py", "/assets/%2e%2e%5capp.py", "/assets/",
        "/assets//etc/passwd", f"/picture/{images}/..%2f..%2fetc%2fpasswd", f"/picture/{images}/-1",
        f"/picture/{images}/999999", "/picture/other/0", "/strip/other?rows=0", f"/strip/{images}?rows=999999",
        f"/strip/{images}?rows=0&side=99999", f"/strip/{images}", "/api/column/path", "/api/nearest/999999",
        "/api/similar", "/api/similar?rows=999999", f"/api/similar?rows={','.join(['0'] * 65)}",
    ):  # fmt: skip
        assert inside.request(path).status in (400, 404), path
    policy = inside.request("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_large_picture_is_upright_and_whole(inside: Explorer, run: Result) -> None:
    answer = inside.request(f"/picture/{inside.state()['images']}/{row_of(run, ROTATED)}")
    with Image.open(BytesIO(answer.body)) as picture:
        assert picture.size == (40, 60)
        assert not picture.getexif()


def test_an_original_that_became_something_else_is_not_handed_out(
    inside: Explorer, run: Result, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.png"
    Image.new("RGB", (7, 9), "white").save(secret)
    row = row_of(run, "photo 005.png")
    photo = tmp_path / "photos" / run.labels.path[row]
    photo.unlink()
    photo.symlink_to(secret)
    answer = inside.request(f"/picture/{inside.state()['images']}/{row}")
    with Image.open(BytesIO(answer.body)) as picture:
        assert picture.width == picture.height  # the square that the run has kept
        assert picture.getpixel((5, 5)) != (255, 255, 255)


def test_small_pictures_come_in_strips(inside: Explorer, run: Result) -> None:
    rows = [3, 1, 7]
    answer = inside.request(f"/strip/{inside.state()['images']}?side=64&rows={','.join(map(str, rows))}")
    with Image.open(BytesIO(answer.body)) as strip:
        assert strip.size == (192, 64)
        for place, row in enumerate(rows):
            with Image.open(Path(str(run.manifest.source)) / run.labels.path[row]) as photo:
                seen, there = np.asarray(strip, dtype=int), np.asarray(photo.convert("RGB"), dtype=int)
                assert np.abs(seen[32, place * 64 + 32] - there[9, 9]).max() < 12
    assert "immutable" in answer.headers["cache-control"]


def test_a_group_says_the_mean_chance_of_its_images(inside: Explorer, run: Result) -> None:
    for group in inside.state()["groups"]:
        members = run.labels.cluster == group["number"]
        assert group["chance"] == pytest.approx(float(run.labels.chance[members].mean()), abs=1e-6)


def test_an_edit_based_on_an_old_page_is_refused(inside: Explorer) -> None:
    before = inside.state()["version"]
    assert inside.edit({"kind": "name", "group": 0, "name": "first"}).status == 200
    late = inside.request("/api/edit", {"version": before, "operation": {"kind": "name", "group": 0, "name": "second"}})
    assert late.status == 409
    assert inside.state()["groups"][0]["name"] == "first"
    impossible = inside.edit({"kind": "merge", "groups": [0, 77]})
    assert impossible.status == 422
    assert "no group 77" in impossible.json["error"]


def test_ctrl_c_ends_in_one_line_and_leaves_the_table_up_to_date(run: Result) -> None:
    with opened(run.run) as explorer:
        explorer.enter()
        assert explorer.edit({"kind": "name", "group": 2, "name": "green things"}).status == 200
        printed = explorer.stop().strip().splitlines()
        assert explorer.process.returncode == 0
    assert [line for line in printed if line][-1] == f"spice: stopped serving {run.run}; your edits are saved"
    assert (run.run / "labels.csv").read_text().count("green things") == 12


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.03 * number**1.3 for number in range(10)])
def test_a_kill_loses_no_acknowledged_edit(run: Result, moment: float) -> None:
    acknowledged: list[str] = []
    with opened(run.run) as explorer:
        explorer.enter()
        version = explorer.state()["version"]
        killer = threading.Timer(moment, explorer.process.kill)
        for number in range(10_000):
            name = f"name {number}"
            try:
                answer = explorer.request(
                    "/api/edit", {"version": version, "operation": {"kind": "name", "group": 0, "name": name}}
                )
            except OSError:
                break
            acknowledged.append(name)
            version = answer.json["version"]
            if number == 0:
                killer.start()
        killer.join()
    kept = [edit.operation.name for edit in read_edits(run.run).edits]  # type: ignore[union-attr]
    assert acknowledged
    assert kept[: len(acknowledged)] == acknowledged


def test_another_result_is_shown_and_names_come_along(inside: Explorer, run: Result) -> None:
    assert inside.edit({"kind": "name", "group": 2, "name": "green things"}).status == 200
    folder = RunFolder.open(run.run)
    folder.publish("other", folder.manifest.results["made"])
    folder.use("made")
    names = [result["name"] for result in inside.request("/api/results").json["results"]]
    assert sorted(names) == ["made", "other"]
    answer = inside.request("/api/use", {"version": inside.state()["version"], "result": "other"})
    assert answer.json["result"] == "other"
    assert [group["name"] for group in answer.json["groups"]] == ["", "", "green things", ""]
    assert read_manifest(run.run).current == "other"
    assert inside.request("/api/use", {"version": answer.json["version"], "result": "nothing"}).status == 422


def test_the_table_to_download_has_the_edits(inside: Explorer) -> None:
    assert inside.edit({"kind": "name", "group": 2, "name": "green things"}).status == 200
    answer = inside.request("/labels.csv")
    assert answer.body.decode().count("green things") == 12
    assert "attachment" in answer.headers["content-disposition"]


def test_a_large_collection_has_no_csv_file_and_its_table_can_be_downloaded(
    inside: Explorer, run: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edited_csv, "MOST_IN_CSV", 10)
    (run.run / "labels.csv").resolve().unlink()
    assert inside.edit({"kind": "name", "group": 2, "name": "green things"}).status == 200
    assert inside.request("/labels.csv").body.decode().count("green things") == 12
    assert not (run.run / "labels.csv").exists()


def test_an_export_stays_beside_the_run(inside: Explorer) -> None:
    for name in ("../outside", "a/b", "..", ".hidden", "a\\b", "", "two\nlines", "/tmp/x"):
        wanted = {"shape": "csv", "name": name, "kept": False, "group": None, "copied": False}
        assert inside.request("/api/export", wanted).status == 400, name
    told = inside.request(
        "/api/export", {"shape": "csv", "name": "my groups", "kept": False, "group": None, "copied": False}
    )
    assert told.status == 422  # there is no tool in this test, and this is as far as a name gets
    assert "my groups" in told.json["error"]
    unknown = {"shape": "onnx", "name": "x", "kept": False, "group": None, "copied": False}
    assert inside.request("/api/export", unknown).status == 400


def test_plausible_numbers_of_groups_are_listed_with_what_they_change(run: Result) -> None:
    counts = [CandidateCount(clusters=count, score=1.0, prominence=0.5, spread=0.1) for count in (2, 4)]
    found = HowManyResult(
        clusters=4, candidates=counts, counts=[2, 3, 4], score=[1.0, 0.5, 1.0], spread=[0.1] * 3, null=0.2, drawn=48,
        finest_peak=4, communities=4, fits_labels=False,
    )  # fmt: skip
    result = add_steps(run.run, {"howmany": found})
    joined = np.array([0, 0, 0, 1], np.int32)[result.labels.cluster]
    np.save(result / CANDIDATES, np.stack([joined, result.labels.cluster]))
    with served(run.run) as explorer:
        explorer.enter()
        (plausible,) = explorer.request("/api/results").json["plausible"]  # the four groups are there already
    assert (plausible["groups"], plausible["joins"], plausible["splits"]) == (2, [[0, 1, 2]], [])
    assert [joined[row] for row in plausible["centers"]] == [0, 1]


def test_a_split_is_shown_before_it_is_made_by_looks_or_along_the_tree(run: Result) -> None:
    leaf = (run.labels.prototype_rank >= 9) + 2 * (run.labels.cluster > 0)
    add_tree(run, leaf, [[2, 3], [0, 1], [4, 5]])
    with served(run.run) as explorer:
        explorer.enter()
        assert explorer.state()["tree"] is True
        along = explorer.request("/api/split", {"group": 0, "into": 2, "tree": True}).json["parts"]
        by_looks = explorer.request("/api/split", {"group": 0, "into": 2}).json["parts"]
        refused = explorer.request("/api/split", {"group": 0, "into": 5, "tree": True})
    assert [len(rows) for rows in along] == [9, 3]
    assert [len(rows) for rows in by_looks] == [6, 6]
    assert refused.status == 422
    assert read_edits(run.run).revision == 0


def test_every_node_of_the_tree_has_its_images_its_group_and_central_pictures(run: Result) -> None:
    add_tree(run, run.labels.cluster, [[0, 1], [2, 3], [4, 5]])
    with served(run.run) as explorer:
        explorer.enter()
        tree = explorer.request("/api/tree").json
        explorer.edit({"kind": "merge", "groups": [2, 3]})
        merged = explorer.request("/api/tree").json
    assert (tree["merges"], tree["most"]) == ([[0, 1], [2, 3], [4, 5]], 4)
    facts = [(node["images"], node["group"], node["share"]) for node in tree["nodes"]]
    assert facts[:4] == [(12, 0, 1.0), (12, 1, 1.0), (12, 2, 1.0), (12, 3, 1.0)]
    assert facts[4:] == [(24, 0, 0.5), (24, 2, 0.5), (48, 0, 0.25)]
    shown = [run.labels.prototype_rank[node["pictures"]].tolist() for node in tree["nodes"]]
    assert shown[0] == list(range(8))
    assert shown[-1] == [0, 0, 0, 0, 1, 1, 1, 1]  # two of every group
    assert [merged["nodes"][number]["group"] for number in (3, 5)] == [2, 2]
    assert merged["nodes"][5]["share"] == 1.0


def test_a_result_without_a_search_of_its_own_shows_the_tree_of_another_on_the_same_features(run: Result) -> None:
    add_tree(run, run.labels.cluster, [[0, 1], [2, 3], [4, 5]])
    first = open_result(run.run)
    folders = {step: folder for step, folder in first.entry.folders.items() if step != "tree"}
    RunFolder.open(run.run).publish("given", first.entry.model_copy(update={"folders": folders}))
    assert open_result(run.run).name == "given"
    with served(run.run) as explorer:
        explorer.enter()
        assert explorer.state()["tree"] is True
        assert explorer.request("/api/tree").json["most"] == 4


def test_a_port_that_is_taken_is_one_line(inside: Explorer, run: Result) -> None:
    port = inside.host.partition(":")[2]
    command = [sys.executable, "-m", "spice", "open", str(run.run), "--no-browser", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert done.stderr.startswith(f"spice: cannot serve on 127.0.0.1 port {port}")
    assert done.stderr.count("\n") == 1


def test_other_machines_are_let_in_by_the_printed_address(run: Result) -> None:
    with opened(run.run, "--host", "0.0.0.0") as explorer:
        assert not explorer.host.startswith("0.0.0.0")
        explorer.enter()
        assert explorer.request("/api/version").status == 200
        assert explorer.request("/api/version", headers={"Host": "evil.example"}).status == 403


def test_work_that_fails_is_never_shown_as_done(run: Result) -> None:
    def fail(progress: Progress) -> Proposal:
        progress("training", 1, 2)
        raise RuntimeError("out of luck")

    with served(run.run, NO_TOOLS._replace(learn=fail)) as explorer:
        explorer.enter()
        version = {"version": explorer.state()["version"]}
        found = explorer.request("/api/learn/start", version).json
        while found["running"]:
            found = explorer.request("/api/learn").json
    assert found["error"] == "out of luck"


def test_a_run_with_links_that_lead_out_is_refused(run: Result, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    (run.run / "edits.json").symlink_to(tmp_path / "precious.txt")
    command = [sys.executable, "-m", "spice", "open", str(run.run), "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "outside the run folder" in done.stderr
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_an_export_from_the_page_has_names_and_moves(run: Result, tmp_path: Path) -> None:
    with opened(run.run) as explorer:
        explorer.enter()
        assert explorer.edit({"kind": "name", "group": 2, "name": "green things"}).status == 200
        row = row_of(run, "photo 004.png")  # of group 0
        assert explorer.edit({"kind": "move", "rows": [row], "group": 2}).status == 200
        wanted = {"shape": "imagefolder", "name": "exported", "kept": False, "group": 2, "copied": True}
        told = explorer.request("/api/export", wanted)
        again = explorer.request("/api/export", wanted)
    assert told.status == 200
    assert "exported 13 images" in told.json["message"]
    files = list((tmp_path / "exported").rglob("*.png"))
    assert len(files) == 13
    assert {"green things"} == {path.parent.name for path in files}
    assert "0 photo 004.png" in {path.name for path in files}
    assert again.status == 422  # nothing is overwritten
