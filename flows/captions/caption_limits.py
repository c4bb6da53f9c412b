"""The limits of captions: tokens of a reply, and the length of a query."""

from dataclasses import replace

from backends.chat import GenerationParameters, has_written_answers, takes_caption_limits
from builders.manifest_records import ThresholdRecord
from builders.recall.caption_cleaning import MAX_QUERY_LENGTH
from flows.definitions.recall import CaptionOptions

_ARTICLE_MIN_TOKENS, _ARTICLE_MAX_TOKENS = 46, 48


def limit_caption_tokens(parameters: GenerationParameters, captions: CaptionOptions) -> GenerationParameters:
    """Returns the parameters with the limits of the definition; else, for a model without limits of its own and in its
    options, with those of the article, whose minimum is for the reference prompt alone (`min_tokens` None)."""
    min_tokens, max_tokens = captions.min_tokens, captions.max_tokens
    if takes_caption_limits(captions.model) and "max_tokens" not in captions.options:
        max_tokens = _ARTICLE_MAX_TOKENS if max_tokens is None else max_tokens
        if (
            min_tokens is None
            and parameters.min_tokens is None
            and "min_tokens" not in captions.options.get("extra", {})
        ):
            min_tokens = min(_ARTICLE_MIN_TOKENS, max_tokens)
    min_tokens = parameters.min_tokens if min_tokens is None else min_tokens
    return replace(parameters, min_tokens=min_tokens, max_tokens=max_tokens)


def find_max_lengths(captions: CaptionOptions) -> dict[str, int]:
    """Returns the most characters (zh) or words (en) of a caption by language; none for captions that people or another
    tool wrote, where the definition gives none."""
    if captions.max_length is not None:
        return dict.fromkeys(captions.languages, captions.max_length)
    if has_written_answers(captions.model):
        return {}
    return {language: MAX_QUERY_LENGTH[language] for language in captions.languages}


def list_caption_thresholds(captions: CaptionOptions) -> list[ThresholdRecord]:
    """Returns the most characters or words of a caption as thresholds of the manifest."""
    if captions.max_length is not None:
        return [ThresholdRecord("captions.max_length", "at most", captions.max_length)]
    lengths = sorted(find_max_lengths(captions).items())
    return [ThresholdRecord(f"captions.max_length.{language}", "at most", most) for language, most in lengths]
