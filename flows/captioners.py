"""Which model is to write the captions: several beside each other, on the same few images.

images of the first definition ─► as many as asked for ─► each captioner asked ─► cleaned ─► figures, page
"""

from collections.abc import Mapping
from pathlib import Path

from builders.gallery.render_steps import load_shown_images
from builders.recall.captioners import CaptionerFigures, ask_captioner, render_captioners_page
from builders.recall.definition import RecallDefinition
from flows.recall_set import load_image_gallery
from querytruth.backends.files.durable_files import write_page
from querytruth.backends.images.rendering import make_thumbnails
from querytruth.errors import UserError


def compare_captioners(
    definitions: Mapping[str, RecallDefinition], count: int, page: Path | None = None
) -> tuple[list[CaptionerFigures], Path]:
    """Returns the figures of each captioner, and the page (`page`, else captioners.html beside the first set's
    versions). The images are those that a selection of `count` of the first definition takes; replies lie in its store,
    so that its build asks about none of them again. Raises UserError."""
    if len(definitions) < 2:
        raise UserError("compare captioners", "one captioner", "has nothing beside it", "name another: --beside B.yaml")
    first = next(iter(definitions.values()))
    few = first.model_copy(update={"select": first.select.model_copy(update={"count": count})})
    gallery = load_image_gallery(few)
    shown = load_shown_images(gallery.tables.images, gallery.rendered_folder)[:count]
    compared = [ask_captioner(name, definition, shown, first) for name, definition in definitions.items()]
    thumbnails = make_thumbnails({image.image_id: str(image.path) for image in shown})
    page = page or first.out / first.name / "review" / "captioners.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    write_page(page, render_captioners_page(first.name, compared, shown, thumbnails), "fix that, and run again")
    return compared, page
