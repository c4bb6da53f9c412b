"""A sheet of texts with small images as the bytes of an .xlsx file (ECMA-376). Every cell is a text, whatever it looks
like: a spreadsheet runs none of them, and turns none into a date.
"""

import io
import re
import zipfile
from collections.abc import Sequence
from xml.sax.saxutils import escape

from PIL import Image

_HIGH, _WIDE = 81, 16  # of a row with an image in points; of the images' column in characters
_GAP, _SIDE = 20_000, 980_000  # around an image and of its longer side, in 1/12700 of a point
_MOST_CHARACTERS = 60  # of a column that is as wide as its texts
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")  # in XML, and what stands for it
_OFFICE = "http://schemas.openxmlformats.org"
_MAIN, _DRAWING = f"{_OFFICE}/spreadsheetml/2006/main", f"{_OFFICE}/drawingml/2006"
_LINKS, _KINDS = f"{_OFFICE}/package/2006/relationships", f"{_OFFICE}/officeDocument/2006/relationships"
_TYPES = f"{_OFFICE}/package/2006/content-types"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>'
    '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="1"><fill><patternFill '
    'patternType="none"/></fill></fills><borders count="1"><border/></borders><cellStyleXfs count="1"><xf/>'
    '</cellStyleXfs><cellXfs count="3"><xf/><xf numFmtId="49" applyNumberFormat="1" applyAlignment="1"><alignment '
    'vertical="top" wrapText="1"/></xf><xf numFmtId="49" fontId="1" applyNumberFormat="1" applyFont="1"/></cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>'
    "</styleSheet>"
)
_WORKBOOK = (
    f'<workbook xmlns="{_MAIN}" xmlns:r="{_KINDS}"><sheets><sheet name="review" sheetId="1" r:id="rId1"/></sheets>'
    "</workbook>"
)


def encode_sheet(rows: Sequence[Sequence[str]], images: Sequence[bytes | None]) -> bytes:
    """Returns the bytes of a file whose first row stays in view. `images`: by row a JPEG, which lies over the first
    column and moves with its row, or None."""
    shown = [(number, jpeg) for number, jpeg in enumerate(images) if jpeg is not None]
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": _list_types(),
        "_rels/.rels": _list_links([("officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": _WORKBOOK,
        "xl/_rels/workbook.xml.rels": _list_links([("worksheet", "worksheets/sheet1.xml"), ("styles", "styles.xml")]),
        "xl/styles.xml": _STYLES,
        "xl/worksheets/sheet1.xml": _write_sheet(rows, {number for number, _ in shown}),
        "xl/worksheets/_rels/sheet1.xml.rels": _list_links([("drawing", "../drawings/drawing1.xml")]),
        "xl/drawings/drawing1.xml": _write_drawing(shown),
        "xl/drawings/_rels/drawing1.xml.rels": _list_links(
            [("image", f"../media/image{place}.jpeg") for place, _ in enumerate(shown, start=1)]
        ),
    } | {f"xl/media/image{place}.jpeg": jpeg for place, (_, jpeg) in enumerate(shown, start=1)}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes whenever it is written
            about.compress_type = zipfile.ZIP_DEFLATED if isinstance(part, str) else zipfile.ZIP_STORED
            archive.writestr(about, _XML + part if isinstance(part, str) else part)
    return out.getvalue()


def _list_types() -> str:
    parts = {
        "workbook.xml": "sheet.main",
        "worksheets/sheet1.xml": "worksheet",
        "styles.xml": "styles",
    }
    listed = "".join(
        f'<Override PartName="/xl/{name}" '
        f'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.{kind}+xml"/>'
        for name, kind in parts.items()
    )
    return (
        f'<Types xmlns="{_TYPES}"><Default Extension="xml" ContentType="application/xml"/><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="jpeg" '
        f'ContentType="image/jpeg"/>{listed}<Override PartName="/xl/drawings/drawing1.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.drawing+xml"/></Types>'
    )


def _list_links(targets: Sequence[tuple[str, str]]) -> str:
    listed = "".join(
        f'<Relationship Id="rId{place}" Type="{_KINDS}/{kind}" Target="{target}"/>'
        for place, (kind, target) in enumerate(targets, start=1)
    )
    return f'<Relationships xmlns="{_LINKS}">{listed}</Relationships>'


def _write_sheet(rows: Sequence[Sequence[str]], with_image: set[int]) -> str:
    longest = [max(map(len, cells)) for cells in zip(*rows[:500], strict=True)]
    widths = [_WIDE, *(min(max(8, one + 2), _MOST_CHARACTERS) for one in longest[1:])]
    columns = "".join(
        f'<col min="{place}" max="{place}" width="{width}" style="1" customWidth="1"/>'
        for place, width in enumerate(widths, start=1)
    )
    written = []
    for number, cells in enumerate(rows):
        style = 1 if number else 2
        high = f' ht="{_HIGH}" customHeight="1"' if number in with_image else ""
        texts = "".join(f'<c s="{style}" t="inlineStr"><is><t xml:space="preserve">{_text(cell)}</t></is></c>' if cell
                        else f'<c s="{style}"/>' for cell in cells)  # fmt: skip
        written.append(f'<row r="{number + 1}"{high}>{texts}</row>')
    view = (
        '<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" '
        'state="frozen"/></sheetView></sheetViews>'
    )
    return (
        f'<worksheet xmlns="{_MAIN}" xmlns:r="{_KINDS}">{view}<cols>{columns}</cols>'
        f'<sheetData>{"".join(written)}</sheetData><drawing r:id="rId1"/></worksheet>'
    )


def _text(cell: str) -> str:
    return escape(_UNWRITABLE.sub(lambda found: f"_x{ord(found[0]):04X}_", cell))


def _write_drawing(shown: Sequence[tuple[int, bytes]]) -> str:
    anchors = "".join(_anchor(place, row, jpeg) for place, (row, jpeg) in enumerate(shown, start=1))
    return (
        f'<xdr:wsDr xmlns:xdr="{_DRAWING}/spreadsheetDrawing" xmlns:a="{_DRAWING}/main" xmlns:r="{_KINDS}">'
        f"{anchors}</xdr:wsDr>"
    )


def _anchor(place: int, row: int, jpeg: bytes) -> str:
    """An image within its cell, so that sorting takes it along, in its own shape."""
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        wide, high = (round(_SIDE * side / max(image.size)) for side in image.size)
    corners = "".join(
        f"<xdr:{name}><xdr:col>0</xdr:col><xdr:colOff>{_GAP + right}</xdr:colOff><xdr:row>{row}</xdr:row>"
        f"<xdr:rowOff>{_GAP + down}</xdr:rowOff></xdr:{name}>"
        for name, right, down in (("from", 0, 0), ("to", wide, high))
    )
    return (
        f'<xdr:twoCellAnchor editAs="twoCell">{corners}<xdr:pic><xdr:nvPicPr><xdr:cNvPr id="{place}" name="{place}"/>'
        f'<xdr:cNvPicPr/></xdr:nvPicPr><xdr:blipFill><a:blip r:embed="rId{place}"/><a:stretch><a:fillRect/></a:stretch>'
        '</xdr:blipFill><xdr:spPr><a:prstGeom prst="rect"><a:avLst/></a:prstGeom></xdr:spPr></xdr:pic>'
        "<xdr:clientData/></xdr:twoCellAnchor>"
    )
