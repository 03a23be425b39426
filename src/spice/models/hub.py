"""Downloads of weights: only for a model that the user has just named, not for one that a run or a model file names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from spice.errors import UserError
from spice.progress import log

VARIABLE = "SPICE_DOWNLOAD"


def may_download() -> bool:
    """Whether the user allows all downloads ($SPICE_DOWNLOAD)."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


@contextmanager
def hub_access(name: str, *, download: bool) -> Iterator[None]:
    """Allow downloads, and log it; or, without `download`, switch the hub's library to offline mode."""
    from huggingface_hub import constants

    if download:
        log.info(f"loading {name}; missing files are downloaded from the Hugging Face Hub")
        yield
        return
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def not_downloaded(name: str) -> UserError:
    """The error for a model that would have to be downloaded."""
    return UserError(
        f"{name} is not on this machine, and encoders of existing runs and models are not downloaded; to allow it, "
        f"set {VARIABLE}=1"
    )
