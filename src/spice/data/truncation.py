"""Whether a file ends too early, as far as its format lets us see.

Decoders tell of some truncations, but not of all, and not in the same words: an unfinished download, say, often has its
full length, with zeros where data should be, and decodes into a picture with a gray lower half.
"""

import struct
from contextlib import suppress
from io import BytesIO
from typing import Literal

from PIL import Image, TiffImagePlugin

# What the last bytes of a whole file are, zeros after them aside (some cameras add those).
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82", "GIF": b";"}
# Compressed data does not end in so many zeros, even where no mark tells its end.
_ZEROS = 512
_TIFF_TYPES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}  # bytes of each type of value


def fades_to_zeros(kind: str, data: bytes) -> bool:
    """Whether zeros stand in for the end of a compressed image; for raw pixels, nobody can tell them from black."""
    if not data.endswith(bytes(_ZEROS)):
        return False
    if kind in _ENDS:
        return not data.rstrip(b"\0").endswith(_ENDS[kind])
    if kind == "WEBP":
        return data[: _webp_length(data)].endswith(bytes(_ZEROS))
    return kind in ("AVIF", "HEIF")


def ends_early(kind: str, data: bytes, error: Exception) -> bool:
    """Whether a file that could not be decoded, with this error, is shorter than it should be."""
    words = str(error).lower()
    if isinstance(error, EOFError | struct.error) or "truncated" in words or "not enough" in words:
        return True
    if kind in _ENDS:
        return _ENDS[kind] not in data[-64:]
    if kind == "WEBP":
        return _webp_length(data) > len(data)
    if kind == "TIFF":
        return _tiff_reaches_beyond(data)
    return kind in ("AVIF", "HEIF", "JPEG2000") and _boxes_reach_beyond(data)


def _webp_length(data: bytes) -> int:
    return int.from_bytes(data[4:8], "little") + 8


def _tiff_reaches_beyond(data: bytes) -> bool:
    """Whether the directory, a value in it, or a strip or tile it speaks of lies past the end of the file."""
    return _tiff_directory_reaches_beyond(data) or _tiff_pixels_reach_beyond(data)


def _tiff_directory_reaches_beyond(data: bytes) -> bool:
    order: Literal["little", "big"] = "little" if data[:2] == b"II" else "big"
    if b"*" not in data[2:4]:  # the kind for files beyond 4 GB has another directory
        return False

    def number(start: int, length: int) -> int:
        return int.from_bytes(data[start : start + length], order)

    directory = number(4, 4)
    entries = [directory + 2 + 12 * entry for entry in range(number(directory, 2))]
    if directory + 6 + 12 * len(entries) > len(data):
        return True
    lengths = {entry: number(entry + 4, 4) * _TIFF_TYPES.get(number(entry + 2, 2), 1) for entry in entries}
    return any(length > 4 and number(entry + 8, 4) + length > len(data) for entry, length in lengths.items())


def _tiff_pixels_reach_beyond(data: bytes) -> bool:
    with suppress(Exception), Image.open(BytesIO(data), formats=("TIFF",)) as image:
        assert isinstance(image, TiffImagePlugin.TiffImageFile)
        for offsets, lengths in ((273, 279), (324, 325)):  # strips, tiles
            places = zip(image.tag_v2.get(offsets, ()), image.tag_v2.get(lengths, ()), strict=False)
            if any(start + length > len(data) for start, length in places):
                return True
    return False


def _boxes_reach_beyond(data: bytes) -> bool:
    """The formats of the MPEG family are boxes that begin with their length; a bare JPEG 2000 stream ends in a mark."""
    if data.startswith(b"\xff\x4f"):
        return not data.endswith(b"\xff\xd9")
    position = 0
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        if length == 1:  # in the next 8 bytes
            length = int.from_bytes(data[position + 8 : position + 16], "big")
        if length < 8:  # 0: to the end of the file; else nonsense
            return False
        position += length
    return position != len(data)
