"""Renders a training as tables and curves, in the form of the report that it follows."""

from collections.abc import Mapping, Sequence
from typing import Any

from querytruth.dual_encoder.definition import TrainingDefinition

ROWS = (("R@1", "hit@1"), ("R@5", "hit@5"), ("R@10", "hit@10"), ("MRR", "rr"))
COLUMNS = (("text to image", "text_to_image"), ("image to text", "image_to_text"), ("mean", "mean"))
CHANCE = "chance (mean)"
_MUCH = 0.2
Figures = Mapping[str, Mapping[str, Sequence[float]]]
_COLOURS = {"mean R@1": "#1668b8", "mean R@10": "#c2580c", "loss": "#5a6472"}
_WIDTH, _HEIGHT, _EDGE = 640, 320, 48


def render_training_report(
    definition: TrainingDefinition,
    history: Sequence[Mapping[str, Any]],
    figures: Figures,
    chance: Mapping[str, float],
    split: Mapping[str, Any],
) -> str:
    """Return Markdown: the figures on the held-out images, and the epochs."""
    images = split["pictures"]
    lines = [
        f"# {definition.title or definition.name}",
        "",
        f"Trained on {split['set']}: {images['train']} images for training, {images['validation']} for choosing the "
        f"epoch, {images['test']} held out for the test.",
        "",
        *format_scores_table(figures, chance),
        *(["", f"Warning: {warning}"] if (warning := warn_of_chance(chance)) else []),
        "",
        "| epoch | stage | loss | text → image | image → text | mean R@1 | mean R@10 | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for epoch in history:
        mean, right = epoch["validation"]["mean"], epoch["accuracy"]
        lines.append(
            f"| {epoch['epoch']} | {epoch['stage'] or '-'} | {epoch['loss']:.3f} | {right['text_to_image']:.3f} "
            f"| {right['image_to_text']:.3f} | {mean['hit@1']:.3f} | {mean['hit@10']:.3f} | {epoch['seconds']:.0f} |"
        )
    lines += ["", "Epochs: accuracies within a training batch, and means of both directions on the validation part."]
    return "\n".join(lines) + "\n"


def format_scores_table(figures: Figures, chance: Mapping[str, float]) -> list[str]:
    """Format the report's table 1 with 95% intervals, in Markdown."""
    lines = ["| | " + " | ".join([*(title for title, _ in COLUMNS), CHANCE]) + " |", "|---|---|---|---|---|"]
    return lines + [f"| {' | '.join(row)} |" for row in list_score_rows(figures, chance)]


def list_score_rows(figures: Figures, chance: Mapping[str, float]) -> list[list[str]]:
    """Return a row per metric: its title, a cell per column, and the mean of a random order."""
    rows = []
    for title, metric in ROWS:
        intervals = [figures[column][metric] for _, column in COLUMNS]
        cells = [f"{value:.3f} ({low:.3f} to {high:.3f})" for value, low, high in intervals]
        rows.append([title, *cells, f"{chance[metric]:.3f}" if metric in chance else "-"])
    return rows


def warn_of_chance(chance: Mapping[str, float]) -> str:
    """Return a warning where a random order gets much of a figure, because few images were kept back; else ""."""
    easy = [f"{title} {chance[metric]:.3f}" for title, metric in ROWS if chance.get(metric, 0) >= _MUCH]
    return f"a random order gets {', '.join(easy)}: the test part is too small, raise split.test" if easy else ""


def render_curves_svg(history: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG of the loss and of the mean validation scores of both directions over the epochs."""
    largest_loss = max(epoch["loss"] for epoch in history) or 1.0
    lines = {
        "mean R@1": [epoch["validation"]["mean"]["hit@1"] for epoch in history],
        "mean R@10": [epoch["validation"]["mean"]["hit@10"] for epoch in history],
        "loss": [epoch["loss"] / largest_loss for epoch in history],
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>'
    ]
    for step in range(5):
        y = _y_position(step / 4)
        parts.append(f'<path d="M{_EDGE} {y}H{_WIDTH - _EDGE}" stroke="#ddd"/>')
        parts.append(f'<text x="{_EDGE - 8}" y="{y + 4}" text-anchor="end">{step / 4:.2f}</text>')
        parts.append(
            f'<text x="{_WIDTH - _EDGE + 8}" y="{y + 4}" fill="{_COLOURS["loss"]}">{largest_loss * step / 4:.2f}</text>'
        )
    for number, (name, values) in enumerate(lines.items()):
        gap = (_WIDTH - 2 * _EDGE) / max(len(values) - 1, 1)
        start = _EDGE if len(values) > 1 else _WIDTH / 2
        points = " ".join(f"{start + gap * at:.1f},{_y_position(value):.1f}" for at, value in enumerate(values))
        x = _EDGE + 110 * number
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_COLOURS[name]}" stroke-width="2"/>')
        parts.append(f'<text x="{x}" y="18" fill="{_COLOURS[name]}">{name}</text>')
    last = f'<text x="{_WIDTH - _EDGE}" y="{_HEIGHT - 12}" text-anchor="end">epoch {len(history)}</text>'
    return "\n".join([*parts, f'<text x="{_EDGE}" y="{_HEIGHT - 12}">epoch 1</text>{last}</svg>', ""])


def _y_position(share: float) -> float:
    return round(_HEIGHT - _EDGE + 12 - (_HEIGHT - 2 * _EDGE) * share, 1)
