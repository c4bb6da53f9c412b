"""Towers that were trained before: read from folders, frozen at first, and refused where they do not fit."""

import json
import re
from pathlib import Path

import pytest
import torch
from transformers import BertTokenizer

from flows.definition_loader import load_definition
from flows.training import train_dual_encoder
from querytruth.backends.environment import EnvironmentFault
from querytruth.backends.models.embedders import EmbedderOptions
from querytruth.backends.steps import BuildRun, active_run
from querytruth.dual_encoder import embedder as dual_encoder
from querytruth.dual_encoder.checkpoints import create_tower, load_pretrained_tower, read_checkpoint
from querytruth.dual_encoder.definition import TrainingDefinition
from querytruth.dual_encoder.model import ImageEncoder
from querytruth.dual_encoder.training import create_initial_model
from querytruth.dual_encoder.training_data import SPECIAL_TOKENS
from querytruth.errors import UserError
from tests.dual_encoder.tiny_towers import SIZES, make_tower
from tests.flows.bars_set import write_bars_set

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ResNet, a ViT and an English BERT with their weights, as the hub's folders hold them."""
    place = tmp_path_factory.mktemp("towers")
    for kind in SIZES:
        make_tower(kind).save_pretrained(place / kind)
    words = [*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    BertTokenizer(vocab={word: number for number, word in enumerate(words)}).save_pretrained(place / "bert")
    return place


def definition(folder: Path, *more: str, images: str = "resnet") -> TrainingDefinition:
    towers = [f"images.name={folder / images}", f"texts.name={folder / 'bert'}", "size=32", "max_length=16"]
    keys = ["name=mine", "set=none", "heads={width: 8, hidden: 8, dimensions: 6}", *towers, *more]
    return load_definition(None, keys, "training")  # type: ignore[return-value]


@pytest.mark.thorough
def test_the_bottom_of_trained_towers_stays_in_the_first_epochs(folder: Path, tmp_path: Path) -> None:
    more = [f"set={write_bars_set(tmp_path)}", f"out={tmp_path / 'models'}", "split.validation=6", "split.test=6"]
    with active_run(BuildRun(workers=1)):
        done = train_dual_encoder(definition(folder, *more, "steps.epochs=1", "steps.batch=8", "steps.rate=0.01"))
    kept = read_checkpoint(str(done.folder))[1]
    towers = {"pictures": folder / "resnet", "texts": folder / "bert"}
    before = {
        f"{side}.backbone.{name}": value
        for side, place in towers.items()
        for name, value in load_pretrained_tower(str(place)).state_dict().items()
    }
    moved = {name for name, value in before.items() if not value.equal(kept[name])}
    assert moved and all(re.search(r"encoder\.stages\.3\.|encoder\.layer\.(8|9|10|11)\.", name) for name in moved)
    assert not any("normalization" in name for name in moved if name.startswith("pictures"))
    assert done.history[0]["stage"] == 1
    assert dual_encoder.load(EmbedderOptions(name=str(done.folder))).encode_texts(["abc"]).shape == (
        1,
        6,
    )


@pytest.mark.thorough
def test_a_tokenizer_of_another_language_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match=r"bert.*does not know 100% of the tokens of these texts"):
        create_initial_model(definition(folder), ["一只狗在沙滩上奔跑"])


def test_a_vit_takes_images_of_its_own_size_and_bert_no_longer_texts(folder: Path) -> None:
    assert create_initial_model(definition(folder, images="vit"), ["abc"]).is_image_tower_pretrained
    with pytest.raises(UserError, match="needs images of 32 pixels"):
        create_initial_model(definition(folder, "size=48", images="vit"), ["abc"])
    with pytest.raises(UserError, match="accepts at most 16 tokens"):
        create_initial_model(definition(folder, "max_length=17"), ["abc"])


EFFICIENT = {"hidden_dim": 128, "width_coefficient": 0.1, "depth_coefficient": 0.1}
SWIN = {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 1], "window_size": 4}


@pytest.mark.parametrize(
    ("architecture", "options", "width"),
    [("efficientnet", EFFICIENT, 128), ("swin", SWIN, 16), ("poolformer", {}, 512)],
)
def test_any_backbone_with_features_is_a_tower(architecture: str, options: dict[str, object], width: int) -> None:
    tower = json.dumps({"architecture": architecture, "options": options})
    keys = ["name=mine", "set=none", "size=32", f"images={tower}", "texts={architecture: gru}"]
    model = create_initial_model(load_definition(None, keys, "training"), ["a dog"]).model  # type: ignore[arg-type]
    assert model.pictures.width == width and len(model.pictures.layers()) > 2
    assert model.training


def test_tokens_without_one_for_all_are_averaged() -> None:
    """The first token of a Swin is the upper left corner."""
    encoder = ImageEncoder(create_tower("swin", SWIN, image_size=32)).eval()
    pixels = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        tokens = encoder.backbone(pixel_values=pixels).last_hidden_state
        assert torch.equal(encoder(pixels), tokens.mean(dim=1)) and tokens.shape[1] > 1


@pytest.mark.parametrize(
    ("architecture", "reason"),
    [
        ("bert", "You must specify exactly one of input_ids or inputs_embeds"),
        ("mobilenet_v2", "does not state the width of its features"),
        ("mobilevit", "shapes cannot be multiplied"),
    ],
)
def test_what_is_no_tower_of_images_is_refused_in_one_line(architecture: str, reason: str) -> None:
    keys = ["name=mine", "set=none", "size=32", f"images={{architecture: {architecture}}}", "texts={architecture: gru}"]
    with pytest.raises(UserError, match=f"{architecture} .*cannot be used as the image tower: .*{reason}") as refused:
        create_initial_model(load_definition(None, keys, "training"), ["a dog"])  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


def test_a_folder_that_lacks_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((folder / "resnet" / "config.json").read_text())
    with pytest.raises(UserError, match="cannot be loaded"):
        load_pretrained_tower(str(tmp_path))


@pytest.mark.parametrize("kind", ["resnet", "vit", "bert"])
def test_a_tower_is_made_again_from_its_description(kind: str) -> None:
    from querytruth.dual_encoder.checkpoints import describe_tower

    made = create_tower(kind, SIZES[kind])
    told = json.loads(json.dumps(describe_tower(made)))
    again = create_tower(told["architecture"], told["options"])
    assert {n: v.shape for n, v in made.state_dict().items()} == {n: v.shape for n, v in again.state_dict().items()}
    assert again.config.to_dict() == made.config.to_dict()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("images={}", "give either name, a trained model, or architecture with options"),
        ("images={name: x, options: {depth: 3}}", "options belong to an architecture"),
        ("steps.stages=[1, 4, 7]", "four rising epochs"),
        ("steps.stages=[2, 4, 7, 11]", "four rising epochs"),
        ("split.test=2.5", "neither a share nor a whole number"),
        ("texts={architecture: lstm}", None),
        ("texts={architecture: lstm} heads.pooling=cls", "cls is the first token's vector"),
        ("augmentation.flop=1", "key 'augmentation.flop' is unknown"),
    ],
)
def test_a_definition_that_cannot_be_trained_names_its_key(given: str, message: str | None) -> None:
    keys = ["name=a", "set=b", *given.split(" heads")[:1], *[f"heads{rest}" for rest in given.split(" heads")[1:]]]
    if message is None:
        assert load_definition(None, keys, "training")
        return
    with pytest.raises(UserError, match=message):
        load_definition(None, keys, "training")


def test_the_starter_says_the_defaults(tmp_path: Path) -> None:
    import yaml

    from flows.definition_checks import render_starter

    text = render_starter("training", None, None, tmp_path)
    (tmp_path / "training.yaml").write_text(text, encoding="utf-8")
    found = load_definition(tmp_path / "training.yaml", [], "training")
    bare = load_definition(None, ["name=my-images", "title=my-images", "set=my-captions"], "training")
    assert found == bare
    of_sets_alone = {
        "out",
        "publish_to",
        "publish_places",
        "publish_names",
        "work",
        "lose_at_most",
        "tables",
        "quarantine",
    }
    assert set(yaml.safe_load(text)) == set(TrainingDefinition.model_fields) - of_sets_alone


def test_a_library_that_is_broken_is_not_blamed_on_the_tower(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object) -> None:
        raise ImportError("cannot import name 'relu' from 'torch'")

    monkeypatch.setattr("querytruth.dual_encoder.model.build_dual_encoder", fail)
    keys = ["name=mine", "set=none", "size=32", "images={architecture: resnet}", "texts={architecture: gru}"]
    with pytest.raises(EnvironmentFault, match="failed in this environment: ImportError"):
        create_initial_model(load_definition(None, keys, "training"), ["a dog"])  # type: ignore[arg-type]
