"""Model folders from strangers: what lies in them is data; nothing in them runs."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from querytruth.backends.models import chat, hub_models
from querytruth.backends.models.chat import ChatRequest, Message
from querytruth.backends.models.embedders import clip, sentence_transformer
from querytruth.dual_encoder import checkpoints as training_checkpoints
from querytruth.errors import UserError
from tests import tiny_chat_models
from tests.tiny_dual_encoders import save_dual_encoder
from tests.tiny_text_models import save_text_model

CODE = "from pathlib import Path\nPath({marker!r}).touch()\nclass Own:\n    @classmethod\n"
CODE += "    def from_pretrained(cls, *given, **named):\n        return cls()\n"


class Touch:
    """Creates a file where its pickle is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> object:
        return Path.touch, (self.marker,)


def load_clip(folder: Path) -> object:
    return clip.load(clip.ClipOptions(name=str(folder), device="cpu"))


def load_sentences(folder: Path) -> object:
    return sentence_transformer.load(
        sentence_transformer.SentenceTransformerOptions(name=str(folder), device="cpu")
    ).encode_texts(["a"])


def load_chat(kind: str) -> Callable[[Path], object]:
    return lambda folder: chat.load_chat_model(kind, name=str(folder)).reply([ChatRequest((Message("user", "a"),))])


def save_sentences(folder: Path) -> Path:
    return save_text_model(folder)


LOADED = {
    "clip": (lambda folder: save_dual_encoder("clip", folder), load_clip),
    "sentences": (save_sentences, load_sentences),
    "qwen": (tiny_chat_models.save_chat_model, load_chat("qwen")),
    "qwen_vl": (lambda folder: tiny_chat_models.save_image_chat_model("qwen2_vl", folder), load_chat("qwen_vl")),
    "tower": (
        lambda folder: save_dual_encoder("clip", folder),
        lambda folder: training_checkpoints.load_pretrained_tower(str(folder)),
    ),
}


@pytest.mark.parametrize("kind", LOADED)
def test_a_model_of_pickled_weights_is_refused_with_the_way_to_convert_it(tmp_path: Path, kind: str) -> None:
    save, load = LOADED[kind]
    folder, marker = save(tmp_path / "model"), tmp_path / "ran"
    [weights] = folder.rglob("*.safetensors")
    weights.unlink()
    (weights.parent / "pytorch_model.bin").write_bytes(pickle.dumps(Touch(marker)))
    with pytest.raises(UserError, match=r"pytorch_model\.bin.*can run code.*save_pretrained") as error:
        load(folder)
    assert "\n" not in str(error.value)
    assert not marker.exists()


def test_a_pickle_beside_safetensors_is_not_opened(tmp_path: Path) -> None:
    folder, marker = save_dual_encoder("clip", tmp_path / "model"), tmp_path / "ran"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Touch(marker)))
    load_clip(folder)
    assert not marker.exists()


@pytest.mark.parametrize("kind", LOADED)
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "preprocessor_config.json"])
@pytest.mark.thorough
def test_python_code_in_a_model_folder_never_runs_and_nobody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, file: str
) -> None:
    save, load = LOADED[kind]
    folder, marker = save(tmp_path / "model"), tmp_path / "ran"
    changed = list(folder.rglob(file))
    if not changed:
        pytest.skip("a model of this kind has no such file")
    for path in changed:
        (path.parent / "own.py").write_text(CODE.format(marker=str(marker)))
        names = ["AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForImageTextToText"]
        names += ["AutoImageProcessor", "AutoProcessor"]
        mapped: dict[str, object] = dict.fromkeys(names, "own.Own") | {"AutoTokenizer": ["own.Own", "own.Own"]}
        config = json.loads(path.read_text())
        foreign = {"model_type": "of_my_own"} if file == "config.json" else {}
        path.write_text(json.dumps(config | {"auto_map": mapped, "tokenizer_class": "Own"} | foreign))
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    try:
        load(folder)
    except UserError as error:
        assert "\n" not in str(error)
    assert not marker.exists()


def test_a_sentence_model_cannot_name_a_class_of_its_own(tmp_path: Path) -> None:
    folder, marker = save_text_model(tmp_path), tmp_path / "ran"
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "own.Own"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match="cannot be loaded"):
        load_sentences(folder)
    assert not marker.exists()


def test_a_cached_hub_model_without_safetensors_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    folder = save_dual_encoder("clip", tmp_path / "model")
    snapshot = Path(shutil.copytree(folder, tmp_path / "snapshot"))
    (snapshot / "model.safetensors").unlink()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_name, **_options: str(snapshot))
    with pytest.raises(UserError, match=r"no safetensors weights on the hub.*save_pretrained"):
        clip.load(clip.ClipOptions(name="stranger/clip"))


@pytest.mark.parametrize(
    ("file", "config"),
    [
        ("config.json", {"num_hidden_layers": 1_000_000}),
        ("config.json", {"text_config": {"encoder_layers": 10**9}}),
        ("config.json", {"vision_config": {"depths": [2, 10**6]}}),
        ("1_Dense/config.json", {"num_local_experts": 10**6}),
    ],
)
def test_a_model_of_endless_layers_is_refused_unbuilt(tmp_path: Path, file: str, config: dict[str, object]) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / "modules.json").write_text(json.dumps([{"path": "1_Dense"}]))
    (tmp_path / file).write_text(json.dumps({"block_size": 131072, "num_hidden_layers": 96, **config}))
    with pytest.raises(UserError, match="more than any model"):
        hub_models.check_weight_format("m", tmp_path, "load model")
    (tmp_path / file).write_text(json.dumps({"block_size": 131072, "num_hidden_layers": 96, "depth": 1.5}))
    hub_models.check_weight_format("m", tmp_path, "load model")


def test_weights_behind_a_link_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "others.safetensors").write_bytes(b"")
    (tmp_path / "model" / "model.safetensors").symlink_to(tmp_path / "others.safetensors")
    with pytest.raises(UserError, match=r"has a link to a file outside it \(model.safetensors\)"):
        hub_models.check_weight_format("m", tmp_path / "model", "load model")


def test_the_hub_s_cache_may_link_to_its_blobs(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--m" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--m" / "blobs").mkdir()
    (tmp_path / "models--m" / "blobs" / "7").write_bytes(b"")
    (snapshot / "model.safetensors").symlink_to("../../blobs/7")
    hub_models.check_weight_format("m", snapshot, "load model")
