"""A contact sheet: pictures in rows under titles, as one PIL image, which a notebook displays."""

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

_GAP, _TITLE_HEIGHT, _FONT_SIZE, _NARROWEST = 4, 26, 15, 400
_PAPER, _INK = "white", (30, 30, 30)


class Section(NamedTuple):
    """Pictures with a title above them."""

    title: str
    pictures: Sequence[Image.Image]


def contact_sheet(sections: Sequence[Section], *, side: int = 96, columns: int = 10) -> Image.Image:
    """Draw the sections one below the other."""
    columns = min(columns, max((len(section.pictures) for section in sections), default=1) or 1)
    step = side + _GAP
    columns = max(columns, -(-_NARROWEST // step))  # room for the title
    heights = [_TITLE_HEIGHT + max(1, -(-len(section.pictures) // columns)) * step for section in sections]
    sheet = Image.new("RGB", (columns * step + _GAP, sum(heights) + _GAP), _PAPER)
    draw, top = ImageDraw.Draw(sheet), 0
    for section, height in zip(sections, heights, strict=True):
        draw.text((_GAP, top + _TITLE_HEIGHT / 2), section.title, fill=_INK, anchor="lm", font_size=_FONT_SIZE)
        for place, picture in enumerate(section.pictures):
            row, column = divmod(place, columns)
            small = picture.convert("RGB").resize((side, side), Image.Resampling.LANCZOS)
            sheet.paste(small, (_GAP + column * step, top + _TITLE_HEIGHT + row * step))
        top += height
    return sheet
