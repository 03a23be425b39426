"""Decodes bytes, a PIL image or an array to pixels at the working size, or raises the reason why it cannot.

The largest centered square is resized to S x S with antialiased bicubic interpolation; an image with a transparent
background is not cropped, but fitted into the square. EXIF orientation is applied, transparency becomes white, 16-bit
values are scaled, not clipped, and of an animation the first frame is used.
"""

import hashlib
import os
import struct
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib import import_module
from io import BytesIO
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from spice.data.other_files import not_an_image
from spice.data.problems import BadImageError, Reason
from spice.errors import one_line

Content = bytes | Image.Image | NDArray[np.generic]

# Pillow itself refuses larger images; anyone who needs them raises PIL.Image.MAX_IMAGE_PIXELS as well.
MAX_PIXELS = 178_956_970
# Longer files are refused: an image is held in memory twice.
MAX_BYTES = 1 << 30
# Larger images are decoded one at a time, to limit the memory of many threads.
LARGE_PIXELS = 16_000_000
# No camera or tool writes a progressive JPEG with so many scans; each scan costs a pass over all pixels.
MAX_SCANS = 500
# Pixels with a lower alpha value are background. Rounded edges and shadows have some transparency, too.
OPAQUE = 128
# Where all values are at least this high, nothing can be seen on white.
BLANK = 248

# Goes up whenever the same file gives other pixels: stores of an older number are filled again.
DECODING = 3

_one_large_image = threading.Lock()

Image.init()  # Register all formats now: doing so lazily is not thread-safe.
with suppress(ImportError):  # HEIC is read where this package is installed.
    import_module("pillow_heif").register_heif_opener()


class Decoded(NamedTuple):
    """An image at the working size, and what it was before."""

    pixels: NDArray[np.uint8]  # (1, S, S) if every pixel is gray, else (3, S, S)
    width: int  # as shown, after EXIF orientation
    height: int


Made = TypeVar("Made")
Finish = Callable[[Image.Image, tuple[int, int], int], Made]  # image as loaded, its original size, size wanted


def decode(content: Content, size: int, *, max_pixels: int = MAX_PIXELS) -> Decoded:
    """The image in `content`, cropped and resized; raises BadImageError, and nothing else, if there is none."""
    return _decode(content, size, max_pixels, _finish)


def whole_picture(content: Content, side: int) -> Image.Image:
    """The image in `content` for display: upright, uncropped, at most `side` pixels long; raises BadImageError."""
    return _decode(content, side, MAX_PIXELS, _shrink)


def _decode(content: Content, size: int, max_pixels: int, finish: Finish[Made]) -> Made:
    try:
        if isinstance(content, bytes):
            return _decode_bytes(content, size, max_pixels, finish)
        image = content if isinstance(content, Image.Image) else from_array(content)
        _refuse_large(image, max_pixels)
        return finish(image, image.size, size)
    except BadImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError) as error:
        raise BadImageError(Reason.TOO_LARGE, _words(error)) from error
    except Exception as error:
        truncated = isinstance(content, bytes) and _ends_early(content, error)
        raise BadImageError(Reason.TRUNCATED if truncated else Reason.UNREADABLE, _words(error)) from error


def format_of(head: bytes) -> str | None:
    """The format whose signature the first bytes of a file carry, by Pillow's name, or None if it is not an image.

    Only formats that have a signature, so that random bytes do not pass for an image, and that are decoded in this
    process, without Ghostscript.
    """
    for name, signatures in _SIGNATURES.items():
        if head.startswith(signatures):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[4:8] == b"ftyp":
        return "AVIF" if b"avi" in head[8:32] else "HEIF" if head[8:11] in _HEIF_BRANDS else None
    if head[:1] == b"P" and head[1:2] in b"123456" and head[2:3].isspace():
        return "PPM"
    return None


def pixel_hash(pixels: NDArray[np.uint8]) -> str:
    """A short hash of decoded pixels, by which damage to the store is found."""
    return hashlib.blake2b(pixels.data, digest_size=8).hexdigest()


def digest(content: Content) -> str:
    """The identity of an image: a hash of the file's bytes, or of its pixels with their shape and type."""
    if isinstance(content, bytes):
        return hashlib.blake2b(content, digest_size=16).hexdigest()
    pixels = np.asarray(content)
    mode = content.mode if isinstance(content, Image.Image) else ""
    key = hashlib.blake2b(f"{pixels.shape} {pixels.dtype.str} {mode}".encode(), digest_size=16)
    key.update(np.ascontiguousarray(pixels).data)
    if isinstance(content, Image.Image) and content.mode == "P":
        key.update(repr(content.getpalette("RGB")).encode())
    return key.hexdigest()


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def from_array(array: NDArray[np.generic]) -> Image.Image:
    """(H, W) or (H, W, C) with C of 1, 3 or 4; 8-bit as it is, 16-bit scaled."""
    pixels = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    return Image.fromarray(np.ascontiguousarray(_scale(pixels)))


_SIGNATURES = {
    "JPEG": (b"\xff\xd8\xff",),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "BMP": (b"BM",),
    "TIFF": (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"),
    "JPEG2000": (b"\x00\x00\x00\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
}
_HEIF_BRANDS = (b"hei", b"hev", b"mif", b"msf")


def _decode_bytes(data: bytes, size: int, max_pixels: int, finish: Finish[Made]) -> Made:
    if not data:
        raise BadImageError(Reason.EMPTY)
    kind = format_of(data[:32])
    if kind is None:
        raise not_an_image(data[:512])
    if kind not in Image.OPEN:
        if kind == "HEIF":
            raise BadImageError(Reason.HEIC, "to read it: pip install pillow-heif")
        raise BadImageError(Reason.UNREADABLE, f"this Pillow cannot read {kind}")
    if kind == "JPEG" and data.count(b"\xff\xda") > MAX_SCANS:
        raise BadImageError(Reason.TOO_LARGE, f"more than {MAX_SCANS} scans")
    if _fades_to_zeros(kind, data):
        raise BadImageError(Reason.TRUNCATED, "zeros instead of its end")
    with Image.open(BytesIO(data), formats=(kind,)) as image:
        original = image.size
        _refuse_large(image, max_pixels)
        with _one_large_image if image.width * image.height >= LARGE_PIXELS else nullcontext():
            if kind == "JPEG":
                # Decode at 1/2, 1/4 or 1/8 if that leaves twice the working size. All of the file is still read.
                image.draft(None, (2 * size, 2 * size))
            image.load()
            return finish(image, original, size)


# The last bytes of a whole file, apart from the zeros that some cameras add.
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82", "GIF": b";"}
# Compressed data does not end in so many zeros, even in a format without an end marker.
_ZEROS = 512


def _fades_to_zeros(kind: str, data: bytes) -> bool:
    """Whether zeros replace the end of a compressed image, as in an unfinished download of full length.

    Decoders accept such a file and show a gray lower half. In raw pixels, zeros may be black.
    """
    if not data.endswith(bytes(_ZEROS)):
        return False
    if kind in _ENDS:
        return not data.rstrip(b"\0").endswith(_ENDS[kind])
    if kind == "WEBP":
        return data[: _webp_length(data)].endswith(bytes(_ZEROS))
    return kind in ("AVIF", "HEIF")


def _ends_early(data: bytes, error: Exception) -> bool:
    """Whether a file that could not be decoded is cut short, judging by its end and the decoder's message."""
    kind, words = format_of(data[:32]) or "", str(error).lower()
    if isinstance(error, EOFError | struct.error) or "truncated" in words or "not enough" in words:
        return True
    if kind == "WEBP":
        return _webp_length(data) > len(data)
    end = _ENDS.get("JPEG" if kind == "JPEG2000" else kind)
    return end is not None and end not in data[-64:]


def _webp_length(data: bytes) -> int:
    return int.from_bytes(data[4:8], "little") + 8


def _refuse_large(image: Image.Image, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise BadImageError(Reason.TOO_LARGE, f"{width} x {height} pixels, more than {max_pixels:,}")
    if width == 0 or height == 0:
        raise BadImageError(Reason.UNREADABLE, f"{width} x {height} pixels")


def _finish(image: Image.Image, original: tuple[int, int], size: int) -> Decoded:
    """Turn upright, convert to 8 bits, make it S x S, and keep one channel if all is gray."""
    orientation = _orientation(image)
    image, background = _upright(image, orientation)
    original = original if orientation < 5 else original[::-1]
    square = _cropped(image, size) if background is None else _fitted(image, size, background)
    # Channel by channel: Pillow splits them faster than NumPy transposes axes.
    planes = [square.tobytes("raw", channel) for channel in square.getbands()]
    if all(plane == planes[0] for plane in planes):
        planes = planes[:1]
    pixels = np.frombuffer(bytearray().join(planes), dtype=np.uint8).reshape(len(planes), size, size)
    return Decoded(pixels, *original)


def _cropped(image: Image.Image, size: int) -> Image.Image:
    """The largest centered square, S x S."""
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    # Cropping in the same step keeps a 1 x 100,000 strip from being blown up to full length.
    return image.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + short, top + short))


def _fitted(image: Image.Image, size: int, background: str) -> Image.Image:
    """All of the image, S pixels long, in the middle of its background."""
    scale = size / max(image.size)
    width, height = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    square = Image.new(image.mode, (size, size), background)
    square.paste(image.resize((width, height), Image.Resampling.BICUBIC), ((size - width) // 2, (size - height) // 2))
    return square


def _shrink(image: Image.Image, original: tuple[int, int], side: int) -> Image.Image:  # noqa: ARG001
    image, _ = _upright(image, _orientation(image))
    image.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=2.0)
    return image


def _upright(image: Image.Image, orientation: int) -> tuple[Image.Image, str | None]:
    """Converted to 8 bits and upright by its EXIF orientation; and the color laid behind it, if it has a background."""
    image, background = _to_8_bit(image)
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image, background


_TURNS = {  # by EXIF orientation; from 5 on, width and height change places
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _orientation(image: Image.Image) -> int:
    with suppress(Exception):  # broken metadata must not make a picture unreadable
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    return 1


def _to_8_bit(image: Image.Image) -> tuple[Image.Image, str | None]:
    """Converted to mode L or RGB; and the color laid behind it, if it has a transparent background."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_scale(np.asarray(image))), None
    if image.has_transparency_data:
        return _on_a_color(image.convert("RGBA"))
    wanted = "L" if image.mode in ("1", "L") else "RGB"
    return image if image.mode == wanted else image.convert(wanted), None


def _on_a_color(image: Image.Image) -> tuple[Image.Image, str | None]:
    """An RGBA image on white, or on black if white would show nothing; and that color if it has a background."""
    alpha, white = np.asarray(image.getchannel("A")), _laid_on("white", image)
    if not alpha.min() < OPAQUE <= alpha.max():
        return white, None
    return (white, "white") if np.asarray(white).min() < BLANK else (_laid_on("black", image), "black")


def _laid_on(color: str, image: Image.Image) -> Image.Image:
    filled = Image.new("RGBA", image.size, color)
    filled.alpha_composite(image)
    return filled.convert("RGB")


def _scale(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Gray levels of any type to 0..255: 65535 and 1.0 become 255; beyond those, smallest to largest."""
    if values.dtype == np.uint8:
        return values.astype(np.uint8, copy=False)
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:
        return ((values.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    numbers = np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(numbers.min()), float(numbers.max())
    if values.dtype.kind == "f" and low >= 0 and high <= 1:
        numbers = numbers * 255
    elif low < 0 or high > 65535:
        numbers = (numbers - low) * (255 / (high - low))
    elif high > 255:
        numbers = numbers * (255 / 65535)
    return np.rint(numbers).clip(0, 255).astype(np.uint8)


def _words(error: BaseException) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "damaged or incomplete"  # Pillow's message contains a memory address
    return one_line(error)
