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
from spice.web.learning import Learning
from spice.web.operations import PageEdit, operations_of
from spice.web.pictures import NoPictureError
from spice.web.results import describe_results, use_result
from spice.web.session import Session, StalePageError, State
from spice.web.tools import ExportBody, Tools
from spice.web.training import Training
from spice.web.tree import describe_tree

# Pictures never change while their address stays the same: it names the images of the run by a hash of them all.
_FOREVER = {"cache-control": "private, max-age=31536000, immutable"}
SIMILAR_SHOWN = 200
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class ChangeBody(BaseModel):
    """The body of a request that changes something: which state the page shows."""

    version: str


class EditBody(ChangeBody):
    """An edit."""

    operation: PageEdit


class SplitBody(BaseModel):
    """A group, and how many parts to look for."""

    group: int
    into: Annotated[int, Field(ge=2, le=50)]
    tree: bool = False  # along the merge tree, instead of by the group's own images


class TrainingBody(ChangeBody):
    """Another number of groups, or None: joint training on the groups as they are."""

    groups: Annotated[int, Field(ge=2, le=10_000)] | None
    cut: bool = False  # start from the merge tree, cut at this number


class ResultBody(ChangeBody):
    """Another result of the run."""

    result: str


def make_app(session: Session, tools: Tools) -> Starlette:
    """The explorer of one run."""
    explorer = Explorer(session, tools)
    routes = [
        Route("/", explorer.page),
        Route("/assets/{name}", explorer.asset),
        Route("/api/state", explorer.state),
        Route("/api/version", explorer.version),
        Route("/api/paths", explorer.paths),
        Route("/api/column/{name}", explorer.column),
        Route("/api/nearest/{row:int}", explorer.nearest),
        Route("/api/results", explorer.results),
        Route("/api/tree", explorer.tree),
        Route("/api/use", explorer.use, methods=["POST"]),
        Route("/api/check", explorer.check),
        Route("/api/example", explorer.example, methods=["POST"]),
        Route("/api/export", explorer.shapes),
        Route("/api/export", explorer.export, methods=["POST"]),
        Route("/labels.csv", explorer.table),
        Route("/api/learn", explorer.learning),
        Route("/api/learn/{do}", explorer.learn, methods=["POST"]),
        Route("/api/training", explorer.training),
        Route("/api/training/{do}", explorer.train, methods=["POST"]),
        Route("/api/edit", explorer.edit, methods=["POST"]),
        Route("/api/split", explorer.split, methods=["POST"]),
        Route("/api/undo", explorer.undo, methods=["POST"]),
        Route("/api/redo", explorer.redo, methods=["POST"]),
        Route("/strip/{images}", explorer.strip),
        Route("/picture/{images}/{row:int}", explorer.picture),
    ]
    return Starlette(routes=routes, exception_handlers={UserError: _refused, NoPictureError: _no_picture})


class Explorer:
    """Answers to requests. Those that read files or compute are plain functions, which Starlette runs in threads."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self._session, self._tools = session, tools
        self._learning = Learning(session, tools)
        self._training = Training(session, tools)

    def page(self, request: Request) -> Response:  # noqa: ARG002
        return _asset("index.html")

    def asset(self, request: Request) -> Response:
        return _asset(request.path_params["name"])

    def version(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse({"version": self._session.state().version})

    def state(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(describe(self._session.state()))

    def paths(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse(paths(self._session.state()))

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

    def results(self, request: Request) -> Response:  # noqa: ARG002
        """The results that the run keeps."""
        return JSONResponse(describe_results(self._session.state()))

    def tree(self, request: Request) -> Response:  # noqa: ARG002
        """Groups within groups."""
        return JSONResponse(describe_tree(self._session.state()))

    async def use(self, request: Request) -> Response:
        body = await _read(request, ResultBody)

        def do() -> State:
            use_result(self._session.run, body.result)
            return self._session.state()

        return await _change(do)

    def check(self, request: Request) -> Response:
        """The next questions of a check by hand, and what the answers say so far."""
        return JSONResponse(describe_check(self._session.state(), _count(request, "images", default=50, most=2000)))

    async def example(self, request: Request) -> Response:
        """The images that are most similar to a file."""
        content = await request.body()
        found = await run_in_threadpool(self._tools.nearest_to, content, SIMILAR_SHOWN)
        return JSONResponse({"rows": [row for row, _ in found], "similarity": [round(value, 3) for _, value in found]})

    def shapes(self, request: Request) -> Response:  # noqa: ARG002
        """What can be exported, and where to."""
        folder = self._session.run.absolute().parent
        return JSONResponse({"shapes": [*get_args(Shape)], "folder": str(folder)})

    async def export(self, request: Request) -> Response:
        """Write the groups beside the run folder. Nothing is overwritten."""
        body = await _read(request, ExportBody)
        destination = self._session.run.absolute().parent / body.name
        message = await run_in_threadpool(self._tools.export, body, destination)
        return JSONResponse({"told": message})

    def table(self, request: Request) -> Response:  # noqa: ARG002
        """`labels.csv` with all edits, to download."""
        headers = {"content-disposition": "attachment; filename=labels.csv"}
        return Response(self._session.table(), media_type="text/csv", headers=headers)

    def learning(self, request: Request) -> Response:  # noqa: ARG002
        """What learning from corrections would move, or its progress."""
        return JSONResponse(self._learning.describe())

    async def learn(self, request: Request) -> Response:
        """Start, cancel or accept."""
        await _read(request, ChangeBody)
        return await _control(request, self._learning, self._learning.start)

    def training(self, request: Request) -> Response:  # noqa: ARG002
        """The progress of a training, or what joint training would change."""
        return JSONResponse(self._training.describe())

    async def train(self, request: Request) -> Response:
        """Start, cancel or accept."""
        if request.path_params["do"] != "start":
            await _read(request, ChangeBody)
            return await _control(request, self._training)
        body = await _read(request, TrainingBody)
        return await _control(request, self._training, partial(self._training.start, body.groups, cut=body.cut))

    def strip(self, request: Request) -> Response:
        opened = self._session.state().opened
        rows = [int(row) for row in request.query_params.get("rows", "").split(",") if row.isdecimal()]
        side = _count(request, "side", default=96, most=pictures.LARGEST_TILE)
        if not 0 < len(rows) <= pictures.MOST_IN_STRIP:
            raise HTTPException(400)
        if request.path_params["images"] != opened.result.scan.identity or max(rows) >= len(opened.labels.path):
            raise HTTPException(404)
        return Response(opened.pictures.strip(rows, side), media_type="image/jpeg", headers=_FOREVER)

    def picture(self, request: Request) -> Response:
        opened, row = self._session.state().opened, self._row(request)
        if request.path_params["images"] != opened.result.scan.identity:
            raise HTTPException(404)
        found = opened.pictures.large(row, pictures.LARGEST_PICTURE)
        return Response(found, media_type="image/jpeg", headers=_FOREVER)

    async def edit(self, request: Request) -> Response:
        body = await _read(request, EditBody)
        return await _change(lambda: self._session.edit(body.version, partial(operations_of, body.operation)))

    async def split(self, request: Request) -> Response:
        """What the parts of a group would be; nothing is changed."""
        body = await _read(request, SplitBody)

        def look() -> JsonValue:
            state = self._session.state()
            members = np.flatnonzero(state.groups.group == body.group)
            tree = state.opened.tree if body.tree else None
            if tree is not None:
                parts = tree.split(members, into=body.into)
            else:
                parts = split_rows(state.opened.result.answer_features, members, into=body.into)
            rank = state.opened.labels.prototype_rank
            return {"parts": [rows[np.argsort(rank[rows], kind="stable")].tolist() for rows in parts]}

        return JSONResponse(await run_in_threadpool(look))

    async def undo(self, request: Request) -> Response:
        body = await _read(request, ChangeBody)
        return await _change(lambda: self._session.undo(body.version))

    async def redo(self, request: Request) -> Response:
        body = await _read(request, ChangeBody)
        return await _change(lambda: self._session.redo(body.version))

    def _row(self, request: Request) -> int:
        row: int = request.path_params["row"]
        if row >= len(self._session.state().opened.labels.path):
            raise HTTPException(404)
        return row


async def _change(do: Callable[[], State]) -> Response:
    """The state after a change. Answered only when the change is on the disk."""
    state = await run_in_threadpool(do)
    return await run_in_threadpool(lambda: JSONResponse(describe(state)))


async def _control(request: Request, work: Learning | Training, start: Callable[[], None] | None = None) -> Response:
    """Start, cancel or accept work in the background, as the last part of the address says."""
    do = request.path_params["do"]
    if do == "accept":
        return await _change(work.accept)
    action = {"start": start, "cancel": work.cancel}.get(do)
    if action is None:
        raise HTTPException(404)
    await run_in_threadpool(action)
    return JSONResponse(await run_in_threadpool(work.describe))


Body = TypeVar("Body", bound=BaseModel)


async def _read(request: Request, kind: type[Body]) -> Body:
    if request.headers.get("content-type") != "application/json":
        raise HTTPException(415)
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise HTTPException(400, detail=error.errors()[0]["msg"]) from None


def _count(request: Request, name: str, *, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise HTTPException(400)
    return int(text)


def _asset(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    # What the report has, too, so that the two look the same.
    homes = files("spice.web") / "assets", files("spice.report") / "shared"
    path = next((home / name for home in homes if (home / name).is_file()), None)
    if path is None or kind is None or "/" in name or "\\" in name:
        raise HTTPException(404)
    return Response(path.read_bytes(), media_type=f"{kind}; charset=utf-8", headers={"cache-control": "no-cache"})


def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001
    stale = isinstance(error, StalePageError | StaleEditsError)
    return JSONResponse({"error": str(error)}, 409 if stale else 422)


def _no_picture(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return JSONResponse({"error": "There is no picture of this image any more."}, 404)
