"""Decodes thousands of damaged images of every format: each must quickly give pixels or a reason, in little memory.

    python benchmarks/fuzz_decode.py --cases 20000 --seed 0 [--images FOLDER_OR_ARCHIVE]

Each case is a function of (seed, number), so that a failed one can be repeated with `--only NUMBER`. Ends with an error
on the first exception that is not a BadImageError, on a case slower than `--seconds`, on a crash of the process (then
`--log` has the number of the case), or if memory exceeds `--gigabytes`.
"""

import argparse
import faulthandler
import io
import random
import resource
import signal
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image, features

from spice.data.decode import decode
from spice.data.problems import BadImageError
from spice.data.recognize import open_source

EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"  # orientation 6
FORMATS: dict[str, tuple[str, str, dict[str, object]]] = {  # name: mode, format, options
    "jpg": ("RGB", "JPEG", {"quality": 85}),
    "jpg progressive": ("RGB", "JPEG", {"progressive": True, "exif": EXIF}),
    "jpg gray": ("L", "JPEG", {}),
    "jpg cmyk": ("CMYK", "JPEG", {}),
    "png": ("RGB", "PNG", {}),
    "png alpha": ("RGBA", "PNG", {}),
    "png palette": ("P", "PNG", {}),
    "png 16-bit": ("I;16", "PNG", {}),
    "webp": ("RGB", "WEBP", {}),
    "webp lossless": ("RGBA", "WEBP", {"lossless": True}),
    "gif": ("P", "GIF", {}),
    "gif animated": ("P", "GIF", {"save_all": True}),
    "bmp": ("RGB", "BMP", {}),
    "bmp palette": ("P", "BMP", {}),
    "tiff": ("RGB", "TIFF", {}),
    "tiff lzw": ("RGB", "TIFF", {"compression": "tiff_lzw"}),
    "tiff deflate 16-bit": ("I;16", "TIFF", {"compression": "tiff_adobe_deflate"}),
    "tiff jpeg": ("RGB", "TIFF", {"compression": "jpeg"}),
    "jpeg 2000": ("RGB", "JPEG2000", {}),
    "ppm": ("RGB", "PPM", {}),
    "avif": ("RGB", "AVIF", {}),
}  # fmt: skip
SIGNATURES = (
    b"\xff\xd8\xff\xe0",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"RIFF\xff\0\0\0WEBPVP8 ",
    b"P6\n",
    b"",
)


def main() -> None:
    arguments = parse()
    seeds = seed_files(arguments.images)
    log = arguments.log.open("w")
    faulthandler.enable()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a hang inside a decoder ends the process
    warnings.simplefilter("ignore")
    limit_memory(arguments.gigabytes)
    numbers = [arguments.only] if arguments.only is not None else range(arguments.cases)
    outcomes: Counter[str] = Counter()
    slowest, started = (0.0, -1), time.monotonic()
    for number in numbers:
        log.seek(0)
        log.write(f"{number:<12}")
        log.flush()
        name, data = case(arguments.seed, number, seeds)
        signal.alarm(round(arguments.seconds) + 1)
        begun = time.perf_counter()
        outcome = judge(data, size=32)
        took = time.perf_counter() - begun
        outcomes[outcome] += 1
        if name.startswith("jpg"):  # at 160 pixels nothing is left out in decoding; the verdict must be the same
            assert judge(data, size=160) == outcome, f"draft decoding changed the verdict on case {number}"
        signal.alarm(0)
        slowest = max(slowest, (took, number))
        assert took < arguments.seconds, f"case {number} ({name}) took {took:.1f} s"
    took = time.monotonic() - started
    print(f"{len(numbers):,} cases from {len(seeds)} kinds, seed {arguments.seed}: no crash, no hang, {took:.0f} s")
    print(f"slowest case {slowest[0]:.2f} s (number {slowest[1]}), peak memory {peak_megabytes():,.0f} MB")
    for outcome, count in outcomes.most_common():
        print(f"  {outcome:<14}{count:>8,}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="run this one case")
    parser.add_argument("--images", type=Path, help="real images to damage; default: synthetic ones")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gigabytes", type=float, default=3.0, help="limit of address space, beyond that at the start")
    parser.add_argument("--log", type=Path, default=Path("/dev/null"))
    return parser.parse_args()


def seed_files(images: Path | None) -> list[tuple[str, bytes]]:
    """Intact files of every format, made from real photos if there are any."""
    files = []
    for number, (name, (mode, kind, options)) in enumerate(FORMATS.items()):
        if kind == "AVIF" and not features.check("avif"):
            continue
        photo = photos(images)[number % 4]
        buffer = io.BytesIO()
        extra = {"append_images": [photo.rotate(90)]} if "save_all" in options else {}
        in_mode(photo, mode).save(buffer, kind, **options, **extra)
        decode(buffer.getvalue(), 32)  # the intact file must be readable
        files.append((name, buffer.getvalue()))
    return files


def photos(images: Path | None) -> list[Image.Image]:
    if images is None:
        random_values = np.random.default_rng(0).integers(0, 256, (4, 16, 12, 3), dtype=np.uint8)
        return [Image.fromarray(values).resize((160, 120)) for values in random_values]
    source = open_source(images)
    entries, _ = source.listing()
    contents = [source.read(entry) for entry in entries[:: max(1, len(entries) // 4)]][:4]
    return [Image.open(io.BytesIO(data)).convert("RGB") for data in contents if isinstance(data, bytes)]


def in_mode(photo: Image.Image, mode: str) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(np.asarray(photo.convert("L")).astype(np.uint16) * 257)
    return photo.convert(mode)


def case(seed: int, number: int, seeds: list[tuple[str, bytes]]) -> tuple[str, bytes]:
    """In one of eight cases random bytes, else a damaged file."""
    draw = random.Random(f"{seed} {number}")
    if number % 8 == 0:
        return "random bytes", draw.choice(SIGNATURES) + draw.randbytes(draw.randrange(5000))
    name, whole = seeds[number % len(seeds)]
    data = bytearray(whole)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        draw.choice((flip_bits, flip_in_header, truncate, overwrite, cut_out, repeat))(data, draw)
    return name, bytes(data)


def flip_bits(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 4, 16, 64)) if data else 0):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def flip_in_header(data: bytearray, draw: random.Random) -> None:
    """Change bytes among sizes, offsets and counts."""
    for _ in range(draw.choice((1, 2, 4)) if data else 0):
        data[draw.randrange(min(len(data), 700))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))


def truncate(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data) + 1) :]


def overwrite(data: bytearray, draw: random.Random) -> None:
    start, length = draw.randrange(len(data) + 1), draw.randrange(400)
    data[start : start + length] = draw.choice((draw.randbytes(length), bytes(length), b"\xff" * length))


def cut_out(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data) + 1)
    del data[start : start + draw.randrange(1000)]


def repeat(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data) + 1)
    data[start:start] = data[start : start + draw.randrange(1000)]


def judge(data: bytes, size: int) -> str:
    """`used`, or the reason why not. Any other exception than a BadImageError ends the run."""
    try:
        decoded = decode(data, size)
    except BadImageError as error:
        return str(error.reason)
    assert decoded.pixels.shape in ((1, size, size), (3, size, size))
    return "used"


def limit_memory(gigabytes: float) -> None:
    """Let a decoder that asks for more get a MemoryError. The memory in use is printed at the end."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + int(gigabytes * (1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
