"""Checks the models of a recall set before anything is asked: a build that pays for captions must be able to end."""

from backends import chat
from backends.embedders import load_image_text_embedder, load_text_embedder, must_download
from flows.captions.captioning import choose_caption_prompts, load_caption_model, load_description_model
from flows.definitions import RecallDefinition
from flows.steps import current_run, step

_SAMPLE_TEXTS = {"zh": "一只狗", "en": "a dog"}  # of the captions' languages


@step("check models")
def check_recall_models(definition: RecallDefinition, *, is_plan: bool = False) -> list[str]:
    """Loads the embedders and looks for the keys of chat models. Returns the names of embedders that are not on this
    machine: a plan does not download them, a build does. Raises UserError for a missing key or library, a model that
    cannot be loaded, and a text embedder that does not know the language of the captions."""
    run, rules = current_run(), definition.ambiguity
    definition = choose_caption_prompts(definition)
    if not run.offline:
        chat.check_access(load_caption_model(definition))
        if definition.descriptions is not None:
            chat.check_access(load_description_model(definition))
    names = [name for name in (rules.text_embedder, rules.image_embedder) if name is not None]
    to_download = [name for name in names if is_plan and not run.offline and must_download(name)]
    if rules.text_embedder is not None and rules.text_embedder not in to_download:
        languages = definition.captions.languages
        load_text_embedder(rules.text_embedder).check_language([_SAMPLE_TEXTS[language] for language in languages])
    if rules.image_embedder is not None and rules.image_embedder not in to_download:
        load_image_text_embedder(rules.image_embedder)
    return to_download
