"""Settings as TOML, for `spice settings` and --settings."""

import difflib
import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import tomli_w
from pydantic import BaseModel, JsonValue, PositiveInt, TypeAdapter, ValidationError

from spice.errors import UserError
from spice.group_sizes import clusters_from, with_sizes
from spice.presets import Clusters, checked_clusters, joint_on_cpu, preset
from spice.settings import FeatureSettings, RunSettings

Tree = dict[str, JsonValue]
NONE = "none"  # in TOML, which has no null
COMMENT_WIDTH = 118
Kind = TypeVar("Kind", bound=BaseModel)


def requested_settings(
    name: str,
    file: Path | None = None,
    *,
    clusters: Clusters = None,
    sizes: tuple[float, ...] | None = None,
    encoder: str | None = None,
    size: int | None = None,
    flip: bool | None = None,
    refine: bool = False,
    minutes: float | None = None,
    seed: int | None = None,
) -> RunSettings:
    """The preset called `name`, overridden by a settings file, and both overridden by explicit options.

    Args:
        sizes: shares of the groups, if they are known; they replace `clusters`.
    """
    clusters = checked_clusters(clusters)
    if sizes is not None:
        clusters = clusters_from(sizes, clusters)
    changes = {} if file is None else read_changes(file)
    options = {
        "heads.clusters": clusters,
        "how_many": clusters,
        "encoder": encoder,
        "size": size,
        "seed": seed,
        "joint": True if refine and not changes.get("joint") else None,  # overrides joint = "none" in the file
        "joint.minutes": minutes,
        **dict.fromkeys(("features.augment.flip", "views.augment.flip", "joint.augment.flip"), flip),
    }
    _remove_(changes, [name for name, option in options.items() if option is not None])
    settings = preset(
        name,
        clusters=clusters or _get(changes, PositiveInt, "heads", "clusters") or _number_of_sizes(changes),
        encoder=encoder or _get(changes, str, "encoder"),
        size=size,
        flip=True if flip is None else flip,
        refine=refine,
        minutes=minutes,
        seed=seed or 0,
    )
    if file is not None:
        settings = apply_changes(settings, changes, path=file)
    return settings if sizes is None else with_sizes(settings, sizes)


def read_changes(path: Path, kind: type[BaseModel] = RunSettings) -> Tree:
    """The settings in a file, as a tree. Names are checked here, values by `apply_changes`."""
    try:
        tree = {name: _with_none(value) for name, value in tomllib.loads(path.read_text(encoding="utf-8")).items()}
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    _check_names(tree, kind, path)
    return tree


def apply_changes(settings: RunSettings, changes: Mapping[str, JsonValue], *, path: Path) -> RunSettings:
    """The settings overridden by changes from the file at `path`: tables are merged, everything else is replaced."""
    base = settings.model_dump(mode="json")
    changes = dict(changes)
    if changes.get("joint") and base["joint"] is None:
        usual = joint_on_cpu(pretrained=settings.encoder != "scratch", flip=settings.views.augment.flip)
        base["joint"] = usual.model_dump(mode="json")
    if changes.get("features") and base["features"] is None:
        # The settings of stage 1 depend on the images, so these changes are applied when the images are known.
        later = changes["features_changes"] = changes.pop("features")
        _validate(FeatureSettings, FeatureSettings().model_dump(mode="json"), later, path, "features")
    return _validate(RunSettings, base, changes, path, "")


def apply_file(settings: Kind, path: Path) -> Kind:
    """Any settings overridden by those of a file."""
    return _validate(type(settings), settings.model_dump(mode="json"), read_changes(path, type(settings)), path, "")


def to_toml(settings: Mapping[str, JsonValue]) -> str:
    """Settings of a run as text that `read_changes` reads, each below its description."""
    tree = {name: value for name, value in settings.items() if name not in ("features_changes", "given")}
    lines: list[str] = []
    table = ""
    for line in tomli_w.dumps(_without_none(tree)).splitlines():
        if match := re.fullmatch(r"\[(.+)\]", line):
            table = match[1]
            lines += _comment(table, is_table=True)
        elif match := re.match(r"\w+ = ", line):
            lines += _comment(f"{table}.{line.split()[0]}".removeprefix("."))
        lines.append(line)
    return "\n".join(lines) + "\n"


def _inside(tree: JsonValue, *names: str) -> JsonValue:
    """The value at `names`; None if there is none."""
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _get(tree: JsonValue, kind: Any, *names: str) -> Any:
    """The value at `names`; None if there is none or it is not of this kind, which `apply_changes` reports."""
    try:
        return TypeAdapter(kind).validate_python(_inside(tree, *names))
    except ValidationError:
        return None


def _remove_(tree: Tree, names: Iterable[str]) -> None:
    """Remove settings such as `heads.clusters` from the tree, where they are."""
    for name in names:
        *tables, setting = name.split(".")
        if isinstance(table := _inside(tree, *tables), dict):
            table.pop(setting, None)


def _number_of_sizes(changes: Tree) -> int | None:
    """The number of groups, if a file gives their sizes."""
    sizes = _inside(changes, "heads", "sizes")
    return len(sizes) if isinstance(sizes, list) else None


def _validate(kind: type[Kind], base: Tree, changes: JsonValue, path: Path, prefix: str) -> Kind:
    try:
        return kind.model_validate(_merged(base, changes))
    except ValidationError as error:
        first = error.errors()[0]
        # The location goes on with the alternatives of a type, such as "constrained-str", which are no names.
        names = [str(part) for part in first["loc"] if isinstance(part, int) or str(part).isidentifier()]
        where = ".".join([*([prefix] if prefix else []), *names])
        if first["type"] == "model_type":
            raise UserError(f"{path}: {where} = {first['input']!r}: expected a table, [{where}]") from None
        value = "" if isinstance(first["input"], dict) else f" = {first['input']!r}"
        raise UserError(f"{path}: {where}{value}: {first['msg'].lower().removeprefix('value error, ')}") from None


def _merged(base: JsonValue, changes: JsonValue) -> JsonValue:
    if isinstance(base, dict) and isinstance(changes, dict):
        return {**base, **{name: _merged(base.get(name), value) for name, value in changes.items()}}
    return changes


def _check_names(tree: Mapping[str, JsonValue], kind: type[BaseModel], path: Path, prefix: str = "") -> None:
    """Refuse an unknown name, and suggest the nearest known one."""
    for name, value in tree.items():
        if name not in kind.model_fields:
            near = difflib.get_close_matches(name, kind.model_fields, n=1)
            advice = f"did you mean {prefix}{near[0]}? " if near else ""
            where = f"[{prefix.rstrip('.')}]" if prefix else "the top level of the file"
            raise UserError(
                f"{path}: unknown setting {prefix}{name}; {advice}{where} has {', '.join(kind.model_fields)}"
            )
        inner = _settings_in(kind.model_fields[name].annotation)
        if inner is not None and isinstance(value, dict):
            _check_names(value, inner, path, f"{prefix}{name}.")


def _settings_in(annotation: object) -> type[BaseModel] | None:
    """The settings class in a type such as `JointSettings | None`."""
    kinds = [annotation, *get_args(annotation)]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _comment(name: str, *, is_table: bool = False) -> list[str]:
    """The description of a setting or table such as `joint.augment`; empty if this version does not know it."""
    kind: type[BaseModel] = RunSettings
    description = ""
    for part in name.split("."):
        if part not in kind.model_fields:
            return []
        field = kind.model_fields[part]
        inner = _settings_in(field.annotation)
        description = (inner.__doc__ if inner and is_table else field.description) or ""
        kind = inner or BaseModel
    words = " ".join(description.split())
    return textwrap.wrap(words, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")


def _without_none(tree: Mapping[str, JsonValue]) -> Tree:
    return {
        name: NONE if value is None else _without_none(value) if isinstance(value, dict) else value
        for name, value in tree.items()
    }


def _with_none(tree: JsonValue) -> JsonValue:
    if isinstance(tree, dict):
        return {name: _with_none(value) for name, value in tree.items()}
    return None if tree == NONE else tree
