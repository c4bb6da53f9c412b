"""The HTML of the review page."""

from typing import Any

from review.page_parts import environment


def render_template(template: str, about: dict[str, Any], **context: Any) -> str:
    """Render one page of the set that `about` describes."""
    return environment().get_template(template).render(about=about, **context)
