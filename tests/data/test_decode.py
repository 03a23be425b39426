"""Every format a folder may hold comes out upright, whole and in its true gray levels, or with the reason why not."""

import struct
import zlib
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import ExifTags, Image, features

from spice.data.decode import MAX_SCANS, decode, format_of, whole_picture
from spice.data.problems import BadImageError, Reason

Photo = Callable[..., Image.Image]
Encode = Callable[..., bytes]


def pixels_of(image: Image.Image) -> NDArray[np.uint8]:
    """(3, H, W), computed without the code under test."""
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


def difference(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    return float(np.abs(first.astype(int) - second.astype(int)).mean())


def reason_of(data: bytes, **options: int) -> Reason:
    with pytest.raises(BadImageError) as caught:
        decode(data, 32, **options)
    return caught.value.reason


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "GIF", "WEBP", "JPEG", "JPEG2000", "PPM", "AVIF"])
def test_each_format_gives_the_pixels_that_were_saved(kind: str, photo: Photo, encode: Encode) -> None:
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    square = photo(0, 40, 40)
    options: dict[str, object] = {"lossless": True} if kind == "WEBP" else {"subsampling": 0} if kind == "JPEG" else {}
    decoded = decode(encode(square, kind, **options), 40)
    assert decoded.pixels.shape == (3, 40, 40)
    exact = kind in ("PNG", "BMP", "TIFF", "WEBP", "JPEG2000", "PPM")
    assert difference(decoded.pixels, pixels_of(square)) <= (0 if exact else 6)


def test_the_working_size_is_the_centered_square_resized(photo: Photo, encode: Encode) -> None:
    wide = photo(1, 120, 60)
    expected = wide.resize((48, 24), Image.Resampling.BICUBIC).crop((12, 0, 36, 24))  # as networks are evaluated
    decoded = decode(encode(wide, "PNG"), 24)
    assert (decoded.width, decoded.height) == (120, 60)
    assert np.array_equal(decoded.pixels, pixels_of(expected))


def test_an_endless_strip_costs_no_more_than_a_square() -> None:
    strip = Image.new("L", (1, 60_000), 7)
    assert decode(strip, 256).pixels.shape == (1, 256, 256)  # resized before cropping it would take 3.9 GB


def test_sixteen_bits_are_scaled_not_clipped(encode: Encode) -> None:
    ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    expected = np.rint(ramp / 257.0)
    for kind in ("PNG", "TIFF"):
        decoded = decode(encode(Image.fromarray(ramp), kind), 64)
        assert decoded.pixels.shape == (1, 64, 64)
        assert np.abs(decoded.pixels[0] - expected).max() <= 1
    assert np.abs(decode(ramp, 64).pixels[0] - expected).max() <= 1


def test_sixteen_bit_big_endian_and_float_tiffs_are_read(encode: Encode) -> None:
    ramp = np.linspace(0, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    assert difference(decode(encode(Image.fromarray(ramp), "TIFF"), 64).pixels[0], (ramp * 255).astype(np.uint8)) < 1
    big_endian = Image.frombytes("I;16B", (64, 64), (ramp * 65535).astype(">u2").tobytes())
    assert difference(decode(encode(big_endian, "TIFF"), 64).pixels[0], (ramp * 255).astype(np.uint8)) < 1


@pytest.mark.parametrize("mode", ["1", "L", "I;16", "LA"])
def test_gray_modes_give_one_channel(mode: str, photo: Photo, encode: Encode) -> None:
    gray = photo(2, 32, 32).convert("L")
    image = Image.fromarray(np.asarray(gray).astype(np.uint16) * 257) if mode == "I;16" else gray.convert(mode)
    decoded = decode(encode(image, "PNG"), 32)
    assert decoded.pixels.shape == (1, 32, 32)
    if mode != "1":
        assert np.array_equal(decoded.pixels[0], np.asarray(gray))


def test_a_gray_picture_saved_in_color_is_gray(photo: Photo, encode: Encode) -> None:
    gray = photo(3).convert("L").convert("RGB")
    assert len(decode(encode(gray, "JPEG"), 32).pixels) == 1
    gray.putpixel((20, 20), (200, 10, 10))
    assert len(decode(encode(gray, "PNG"), 40).pixels) == 3


def test_palette_and_cmyk_give_their_colors(photo: Photo, encode: Encode) -> None:
    image = photo(4, 32, 32)
    palette = image.quantize(64)
    assert np.array_equal(decode(encode(palette, "PNG"), 32).pixels, pixels_of(palette))
    cmyk = image.convert("CMYK")
    assert difference(decode(encode(cmyk, "JPEG", quality=95), 32).pixels, pixels_of(image)) < 6
    assert difference(decode(encode(cmyk, "TIFF"), 32).pixels, pixels_of(image)) < 1


@pytest.mark.parametrize("kind", ["RGBA", "P"])
def test_transparency_is_laid_on_white(kind: str, encode: Encode) -> None:
    clear = Image.new("RGBA", (32, 32), (10, 20, 30, 0))
    clear.paste((200, 0, 0, 255), (0, 0, 16, 32))
    image = clear if kind == "RGBA" else clear.convert("P")
    pixels = decode(encode(image, "PNG"), 32).pixels
    assert pixels[:, 5, 28].tolist() == [255, 255, 255]
    assert pixels[0, 5, 4] > 190
    assert pixels[1:, 5, 4].max() < 60


def cutout(width: int, height: int, color: tuple[int, int, int] = (200, 0, 0)) -> Image.Image:
    """A colored picture of this size with nothing in its corners, as of an object without its background."""
    image = Image.new("RGBA", (width, height), (*color, 255))
    for corner in [(0, 0), (width - 4, 0), (0, height - 4), (width - 4, height - 4)]:
        image.paste((0, 0, 0, 0), (*corner, corner[0] + 4, corner[1] + 4))
    return image


def test_what_has_a_transparent_background_is_not_cropped_but_fitted(encode: Encode) -> None:
    for width, height in [(120, 40), (40, 120)]:
        pixels = decode(encode(cutout(width, height), "PNG"), 60).pixels
        red = np.argwhere(pixels[1] < 128)  # white is 255 there
        assert (np.ptp(red, axis=0) + 1).tolist() == ([20, 60] if width > height else [60, 20])
        assert abs(red.mean(axis=0) - 29.5).max() < 0.6  # in the middle
        assert pixels[:, 0, 0].tolist() == [255, 255, 255]
    opaque = Image.new("RGBA", (120, 40), (200, 0, 0, 255))
    assert decode(encode(opaque, "PNG"), 60).pixels.reshape(3, -1).max(axis=1).tolist() == [200, 0, 0]
    assert decode(cutout(1, 60_000), 256).pixels.shape[1:] == (256, 256)


def test_white_on_transparency_is_shown_on_black(encode: Encode) -> None:
    icon = encode(cutout(40, 40, color=(255, 255, 255)), "PNG")
    assert decode(icon, 40).pixels[:, [0, 20], [0, 20]].tolist() == [[0, 255]]
    assert whole_picture(icon, 40).getpixel((0, 0)) == (0, 0, 0)
    pale = encode(cutout(40, 40, color=(240, 255, 255)), "PNG")  # can be seen on white
    assert decode(pale, 40).pixels[0, [0, 20], [0, 20]].tolist() == [255, 240]
    nothing = encode(Image.new("RGBA", (40, 40), (0, 0, 0, 0)), "PNG")
    assert decode(nothing, 40).pixels.min() == 255


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_respected(kind: str, orientation: int, photo: Photo, encode: Encode) -> None:
    upright = photo(5, 60, 41)
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(undo[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    decoded = decode(encode(stored, kind, exif=exif, quality=95), 24)
    assert (decoded.width, decoded.height) == (60, 41)
    assert difference(decoded.pixels, decode(upright, 24).pixels) < 4


def test_broken_exif_costs_no_picture(photo: Photo, encode: Encode) -> None:
    data = encode(photo(6), "JPEG", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\xff garbage")
    assert decode(data, 32).pixels.shape == (3, 32, 32)


def test_of_an_animation_the_first_frame_counts(photo: Photo, encode: Encode) -> None:
    first, second = photo(7, 32, 32), photo(8, 32, 32)
    for kind in ("GIF", "WEBP", "PNG", "TIFF"):
        data = encode(
            first, kind, save_all=True, append_images=[second], **({"lossless": True} if kind == "WEBP" else {})
        )
        assert difference(decode(data, 32).pixels, pixels_of(first)) < 6, kind


def test_draft_decoding_shows_the_same_picture(photo: Photo, encode: Encode) -> None:
    large = photo(9, 1600, 1200)
    decoded = decode(encode(large, "JPEG", quality=95), 64)
    assert (decoded.width, decoded.height) == (1600, 1200)
    assert difference(decoded.pixels, decode(large, 64).pixels) < 1.5


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9, 0.97])
def test_a_truncated_jpeg_is_found_with_and_without_draft(
    kept: float, progressive: bool, photo: Photo, encode: Encode
) -> None:
    data = encode(noisy(photo, 10, 800, 600), "JPEG", progressive=progressive)
    for size in (32, 600):  # 1/8 of the size, and all of it
        assert decode(data, size).pixels.shape == (3, size, size)
        with pytest.raises(BadImageError) as caught:
            decode(data[: int(kept * len(data))], size)
        assert caught.value.reason == Reason.TRUNCATED


def noisy(photo: Photo, seed: int, width: int, height: int) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 40, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(photo(seed, width, height)) + noise, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("lost", [40, 400, 4000, 9000])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "TIFF LZW", "JPEG2000", "AVIF"])
def test_a_truncated_file_of_any_format_is_a_problem(kind: str, lost: int, photo: Photo, encode: Encode) -> None:
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    options = {"compression": "tiff_lzw"} if kind == "TIFF LZW" else {}
    data = encode(noisy(photo, 11, 400, 400), kind.removesuffix(" LZW"), **options)
    assert len(data) > 10_000
    # Of these two, Pillow alone cannot tell a truncated file from a damaged one.
    unsure = {Reason.UNREADABLE} if kind in ("TIFF LZW", "AVIF") else set()
    assert reason_of(data[:-lost]) in {Reason.TRUNCATED, *unsure}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF"])
def test_an_unfinished_download_of_full_length_is_truncated(kind: str, photo: Photo, encode: Encode) -> None:
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    data = encode(noisy(photo, 15, 400, 400), kind)
    for kept in (0.5, 0.8, 0.9):
        arrived = int(kept * len(data))
        assert reason_of(data[:arrived] + bytes(len(data) - arrived)) == Reason.TRUNCATED
    if kind != "AVIF":
        assert decode(data + bytes(5000), 32).width == 400  # zeros after the end are some cameras' habit


def test_what_is_no_image_says_so() -> None:
    assert reason_of(b"") == Reason.EMPTY
    assert reason_of(b"Dear diary, today") == Reason.NOT_AN_IMAGE
    assert reason_of(b"%!PS-Adobe-3.0 EPSF-3.0\n") == Reason.OTHER_FORMAT  # would start Ghostscript
    assert reason_of(b"\x89PNG\r\n\x1a\n" + bytes(100) + b"IEND\xaeB`\x82") == Reason.UNREADABLE
    assert format_of(b"P\x00") is None


def test_a_decompression_bomb_is_refused_by_its_header() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    assert reason_of(b"\x89PNG\r\n\x1a\n" + chunk + b"\x00\x00\x00\x00IDAT") == Reason.TOO_LARGE


def test_the_size_limit_can_be_set(photo: Photo, encode: Encode) -> None:
    data = encode(photo(12, 48, 40), "PNG")
    assert decode(data, 32, max_pixels=48 * 40).width == 48
    assert reason_of(data, max_pixels=48 * 40 - 1) == Reason.TOO_LARGE


def test_a_jpeg_of_endless_scans_is_refused(photo: Photo, encode: Encode) -> None:
    data = encode(photo(13), "JPEG", progressive=True)
    start = data.rindex(b"\xff\xda")
    assert reason_of(data[:start] + data[start:-2] * (MAX_SCANS + 1) + b"\xff\xd9") == Reason.TOO_LARGE


def test_a_lazily_opened_broken_picture_is_a_problem(photo: Photo, encode: Encode) -> None:
    data = encode(photo(14, 200, 200), "JPEG")
    with pytest.raises(BadImageError):
        decode(Image.open(BytesIO(data[: len(data) // 2])), 32)
