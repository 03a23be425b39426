"""Files that are not decoded: camera raw files, whose preview is used, other formats of images, videos and PDFs."""

import threading
from io import BytesIO
from typing import Any

import numpy as np
from PIL import ExifTags, Image

from spice.data.problems import BadImageError, Reason

# By name: many raw files start like a TIFF, and Pillow would show their smallest thumbnail.
_RAW_ENDINGS = (
    *(".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".erf", ".iiq", ".kdc", ".mef", ".mos", ".mrw"),
    *(".nef", ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"),
)
_VIDEO_STARTS = (b"\x1a\x45\xdf\xa3", b"\0\0\x01\xba", b"\0\0\x01\xb3", b"FLV\x01", b"\x30\x26\xb2\x75", b"OggS")
# Formats of images that are not decoded, by their first bytes.
_OTHER_FORMATS = {
    "Photoshop": (b"8BPS",),
    "GIMP": (b"gimp xcf",),
    "JPEG XL": (b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n"),
    "JPEG XR": (b"II\xbc\x01",),
    "EPS": (b"%!PS", b"\xc5\xd0\xd3\xc6"),
    "FITS": (b"SIMPLE  =",),
    "OpenEXR": (b"v/1\x01",),
    "Radiance HDR": (b"#?RADIANCE", b"#?RGBE"),
    "DDS": (b"DDS ",),
    "QOI": (b"qoif",),
    "DjVu": (b"AT&TFORM",),
    "Apple icon": (b"icns",),
    "Windows icon": (b"\0\0\1\0", b"\0\0\2\0"),
}
# LibRaw's codes for rotation.
_TURNS = {3: Image.Transpose.ROTATE_180, 5: Image.Transpose.ROTATE_90, 6: Image.Transpose.ROTATE_270}
_one_raw_file = threading.Lock()  # LibRaw is not thread-safe everywhere


def is_raw(name: str) -> bool:
    """Whether a file of this name is a camera's raw file."""
    return name.lower().endswith(_RAW_ENDINGS)


def not_an_image(head: bytes) -> BadImageError:
    """What a file is whose first bytes are not those of an image."""
    if head.startswith(b"%PDF-"):
        return BadImageError(Reason.PDF)
    is_avi = head[:4] == b"RIFF" and head[8:12] == b"AVI "
    if is_avi or head[4:8] in (b"ftyp", b"moov", b"mdat") or head.startswith(_VIDEO_STARTS):
        return BadImageError(Reason.VIDEO)
    if name := _other_format(head):
        return BadImageError(Reason.OTHER_FORMAT, f"{name}; convert it to PNG or JPEG")
    return BadImageError(Reason.NOT_AN_IMAGE)


def _other_format(head: bytes) -> str | None:
    """The format of an image that is not decoded, or None if this is no image."""
    if head[128:132] == b"DICM":
        return "DICOM"
    if b"<svg" in head:
        return "SVG"
    return next((name for name, starts in _OTHER_FORMATS.items() if head.startswith(starts)), None)


def raw_preview(data: bytes) -> bytes:
    """The preview inside a raw file, as a JPEG or PNG file; raises BadImageError."""
    try:
        import rawpy
    except ImportError:
        raise BadImageError(Reason.RAW, "to read it: pip install rawpy") from None
    try:
        with _one_raw_file, rawpy.imread(BytesIO(data)) as raw:
            thumbnail, turn = raw.extract_thumb(), _TURNS.get(raw.sizes.flip)
            return _upright(thumbnail, turn, is_jpeg=thumbnail.format == rawpy.ThumbFormat.JPEG)
    except Exception as error:  # LibRaw's errors have no common class
        words = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise BadImageError(Reason.RAW, f"no preview can be read from it ({words or type(error).__name__})") from error


def _upright(thumbnail: Any, turn: Image.Transpose | None, *, is_jpeg: bool) -> bytes:
    """The preview, rotated if necessary: some previews lie on their side without saying so."""
    if is_jpeg:
        with Image.open(BytesIO(thumbnail.data)) as image:
            if turn is None or ExifTags.Base.Orientation in image.getexif():
                return bytes(thumbnail.data)
            picture = image.convert("RGB")
    else:
        picture = Image.fromarray(np.asarray(thumbnail.data))
    buffer = BytesIO()
    (picture if turn is None else picture.transpose(turn)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
