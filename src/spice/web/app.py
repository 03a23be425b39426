"""The explorer's requests: the page and its files, the state of the run, pictures, and edits."""

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Annotated, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, Field, JsonValue, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from spice.errors import UserError
from spice.runs.edits import StaleEditsError
from spice.runs.export import Shape
from spice.stages.groups.split import split_rows
from spice.web import pictures
from spice.web.content import column, describe, describe_check, paths
from spice.web.groups import MOST_COMPARED, most_similar_groups
from spice.web.learning import Learning
from spice.web.operations import PageEdit, operations_of
from spice.web.pictures import NoPictureError
from spice.web.results import describe_results, use_result
from spice.web.session import Session, StalePageError
from spice.web.tools import ExportBody, Tools
from spice.web.training import Training
from spice.web.tree import describe_tree

# The address of a picture contains a hash of all images of the run, so what is behind it never changes.
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}
SIMILAR_SHOWN = 200
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class ChangeBody(BaseModel):
    """A request that changes the run. `version` is the state that the page shows."""

    version: str


class EditBody(ChangeBody):
    """An edit."""

    operation: PageEdit


Body = TypeVar("Body", bound=BaseModel)


class SplitBody(BaseModel):
    """A group to split, and into how many parts."""

    group: int
    into: Annotated[int, Field(ge=2, le=50)]
    tree: bool = False  # along the merge tree, not by visual similarity


class TrainingBody(ChangeBody):
    """The number of groups to train, or None: joint training on the current groups."""

    groups: Annotated[int, Field(ge=2, le=10_000)] | None
    cut: bool = False  # start from the merge tree, cut at this number


class ResultBody(ChangeBody):
    """The result to switch to."""

    result: str


def make_app(session: Session, tools: Tools) -> Starlette:
    """The explorer of one run. Starlette runs handlers that are not `async` in threads."""
    explorer, learning, training = Explorer(session, tools), Learning(session, tools), Training(session, tools)

    def edit(body: EditBody) -> JsonValue:
        return describe(session.edit(body.version, partial(operations_of, body.operation)))

    def use(body: ResultBody) -> JsonValue:
        use_result(session.run, body.result)
        return describe(session.state())

    routes = [
        Route("/", lambda _: _asset("index.html")),
        Route("/assets/{name}", lambda request: _asset(request.path_params["name"])),
        Route("/labels.csv", explorer.table),
        Route("/strip/{images}", explorer.strip),
        Route("/picture/{images}/{row:int}", explorer.picture),
        Route("/api/column/{name}", explorer.column),
        Route("/api/nearest/{row:int}", explorer.nearest),
        Route("/api/similar", explorer.similar_groups),
        Route("/api/check", explorer.check),
        Route("/api/example", explorer.example, methods=["POST"]),
        _get("/api/state", lambda: describe(session.state())),
        _get("/api/version", lambda: {"version": session.state().version}),
        _get("/api/paths", lambda: paths(session.state())),
        _get("/api/results", lambda: describe_results(session.state())),
        _get("/api/tree", lambda: describe_tree(session.state())),
        _get("/api/export", explorer.shapes),
        _post("/api/export", ExportBody, explorer.export),
        _post("/api/split", SplitBody, explorer.split),
        _post("/api/edit", EditBody, edit),
        _post("/api/undo", ChangeBody, lambda body: describe(session.undo(body.version))),
        _post("/api/redo", ChangeBody, lambda body: describe(session.redo(body.version))),
        _post("/api/use", ResultBody, use),
        _get("/api/learn", learning.describe),
        _post("/api/learn/start", ChangeBody, lambda _: learning.start()),
        _post("/api/learn/cancel", ChangeBody, lambda _: learning.cancel()),
        _post("/api/learn/accept", ChangeBody, lambda _: describe(learning.accept())),
        _get("/api/training", training.describe),
        _post("/api/training/start", TrainingBody, lambda body: training.start(body.groups, cut=body.cut)),
        _post("/api/training/cancel", ChangeBody, lambda _: training.cancel()),
        _post("/api/training/accept", ChangeBody, lambda _: describe(training.accept())),
    ]
    return Starlette(routes=routes, exception_handlers={UserError: _refused, NoPictureError: _no_picture})


def _get(path: str, answer: Callable[[], JsonValue]) -> Route:
    return Route(path, lambda _: JSONResponse(answer()))


def _post(path: str, kind: type[Body], answer: Callable[[Body], JsonValue]) -> Route:
    """The answer is sent after the change is saved."""

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type") != "application/json":
            raise HTTPException(415)
        try:
            body = kind.model_validate_json(await request.body())
        except ValidationError as error:
            raise HTTPException(400, detail=error.errors()[0]["msg"]) from None
        return await run_in_threadpool(lambda: JSONResponse(answer(body)))

    return Route(path, endpoint, methods=["POST"])


class Explorer:
    """Handlers that do more than describe or change the state."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self._session, self._tools = session, tools

    def column(self, request: Request) -> Response:
        found = column(self._session.state(), request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return Response(found.tobytes(), media_type="application/octet-stream")

    def nearest(self, request: Request) -> Response:
        opened, row = self._session.state().opened, self._row(request)
        near = np.asarray(opened.result.neighbors[row])
        return JSONResponse(
            {"rows": near.tolist(), "similarity": np.asarray(opened.result.similarities[row]).round(3).tolist()}
        )

    def similar_groups(self, request: Request) -> Response:
        """Every group, those most similar to some images first."""
        state = self._session.state()
        return JSONResponse({"groups": most_similar_groups(state, self._rows(request, most=MOST_COMPARED))})

    def check(self, request: Request) -> Response:
        """The next questions of a check, and what the answers so far show."""
        return JSONResponse(describe_check(self._session.state(), _count(request, "images", default=50, most=2000)))

    async def example(self, request: Request) -> Response:
        """The images most similar to an uploaded file."""
        content = await request.body()
        found = await run_in_threadpool(self._tools.nearest_to, content, SIMILAR_SHOWN)
        return JSONResponse({"rows": [row for row, _ in found], "similarity": [round(value, 3) for _, value in found]})

    def shapes(self) -> JsonValue:
        """The export formats, and the folder to export to."""
        return {"shapes": [*get_args(Shape)], "folder": str(self._session.run.absolute().parent)}

    def export(self, body: ExportBody) -> JsonValue:
        """Write the groups beside the run folder. Nothing is overwritten."""
        return {"message": self._tools.export(body, self._session.run.absolute().parent / body.name)}

    def table(self, request: Request) -> Response:  # noqa: ARG002
        """`labels.csv` with all edits, to download."""
        headers = {"content-disposition": "attachment; filename=labels.csv"}
        return Response(self._session.table(), media_type="text/csv", headers=headers)

    def strip(self, request: Request) -> Response:
        """Several small pictures in one JPEG."""
        opened, rows = self._session.state().opened, self._rows(request, most=pictures.MOST_IN_STRIP)
        side = _count(request, "side", default=96, most=pictures.LARGEST_TILE)
        if request.path_params["images"] != opened.result.scan.identity:
            raise HTTPException(404)
        return Response(opened.pictures.strip(rows, side), media_type="image/jpeg", headers=_FOREVER)

    def picture(self, request: Request) -> Response:
        opened, row = self._session.state().opened, self._row(request)
        if request.path_params["images"] != opened.result.scan.identity:
            raise HTTPException(404)
        found = opened.pictures.large(row, pictures.LARGEST_PICTURE)
        return Response(found, media_type="image/jpeg", headers=_FOREVER)

    def split(self, body: SplitBody) -> JsonValue:
        """A preview of the parts of a group; nothing is changed."""
        state = self._session.state()
        members = np.flatnonzero(state.groups.group == body.group)
        tree = state.opened.tree if body.tree else None
        if tree is not None:
            parts = tree.split(members, into=body.into)
        else:
            parts = split_rows(state.opened.result.answer_features, members, into=body.into)
        rank = state.opened.labels.prototype_rank
        return {"parts": [rows[np.argsort(rank[rows], kind="stable")].tolist() for rows in parts]}

    def _row(self, request: Request) -> int:
        row: int = request.path_params["row"]
        self._must_exist(row)
        return row

    def _rows(self, request: Request, *, most: int) -> list[int]:
        rows = [int(row) for row in request.query_params.get("rows", "").split(",") if row.isdecimal()]
        if not 0 < len(rows) <= most:
            raise HTTPException(400)
        self._must_exist(max(rows))
        return rows

    def _must_exist(self, row: int) -> None:
        if row >= len(self._session.state().opened.labels.path):
            raise HTTPException(404)


def _count(request: Request, name: str, *, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise HTTPException(400)
    return int(text)


def _asset(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    folders = files("spice.web") / "assets", files("spice.report") / "shared"
    path = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if path is None or kind is None or "/" in name or "\\" in name:
        raise HTTPException(404)
    return Response(path.read_bytes(), media_type=f"{kind}; charset=utf-8", headers={"cache-control": "no-cache"})


def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001
    stale = isinstance(error, StalePageError | StaleEditsError)
    return JSONResponse({"error": str(error)}, 409 if stale else 422)


def _no_picture(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return JSONResponse({"error": "No picture of this image is left."}, 404)
