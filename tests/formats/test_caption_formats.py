"""Caption sets in miniature, in the layouts that their publishers ship: Flickr8k, Flickr8k-CN, Flickr30K-CN, COCO-CN,
COCO captions, Karpathy's splits, ECCV Caption, Noah-Wukong, TaiSu and Zero; and tables of one's own."""

import json
from pathlib import Path

import pytest

from querytruth.errors import UserError
from querytruth.formats import importers
from querytruth.formats.importers import ImportedTables
from querytruth.formats.importers.flickr30k_cn import join_segmented
from querytruth.formats.set_images import ImageStore
from tests.publisher_files import write_files


def read(name: str, source: Path, split: str | None = None) -> ImportedTables:
    return importers.import_tables(name, source, split, ImageStore(source.parent / "unpacked"))


def pairs(said: ImportedTables) -> list[tuple[str, str]]:
    """Text and right image of every judgment over 0."""
    texts = dict(zip(said.queries["query"], said.queries["text"], strict=True))
    right = said.qrels[said.qrels["relevance"] > 0]
    return sorted((texts[query], image) for query, image in zip(right["query"], right["image"], strict=True))


def test_flickr8k_takes_the_images_of_the_split(tmp_path: Path) -> None:
    write_files(
        tmp_path / "f8",
        {
            "Flickr8k.token.txt": "1.jpg#0\tA dog runs .\n1.jpg#1\tA brown dog .\n2.jpg#0\tA boat .\n"
            "3.jpg#0\tTwo cats .\n",
            "Flickr_8k.testImages.txt": "1.jpg\n2.jpg\n",
            "Flickr_8k.devImages.txt": "3.jpg\n",
        },
    )
    said = read("flickr8k", tmp_path / "f8")
    assert pairs(said) == [("A boat .", "2.jpg"), ("A brown dog .", "1.jpg"), ("A dog runs .", "1.jpg")]
    assert set(said.queries["language"]) == {"en"}
    assert list(said.images["file_name"]) == ["1.jpg", "2.jpg"]
    assert pairs(read("flickr8k", tmp_path / "f8", "dev")) == [("Two cats .", "3.jpg")]
    assert len(read("flickr8k", tmp_path / "f8" / "Flickr8k.token.txt").queries) == 4, "a file is read whole"


def test_flickr8k_cn_lists_its_splits_without_the_suffix(tmp_path: Path) -> None:
    write_files(
        tmp_path / "cn",
        {
            "flickr8kzhc.caption.txt": "1_a.jpg#zhc#0 一只狗。\n1_a.jpg#zhc#1 狗在跑。\n2_b.jpg#zhc#0 一艘船。\n",
            "flickr8ktest.txt": "1_a\n",
        },
    )
    write_files(tmp_path / "cn", {"Flickr_8k.devImages.txt": "2_b.jpg\n", "Flickr_8k.trainImages.txt": ""})
    said = read("flickr8k_cn", tmp_path / "cn", "test")
    for split in ("dev", "val"):
        assert pairs(read("flickr8k_cn", tmp_path / "cn", split)) == [("一艘船。", "2_b.jpg")], "the official list"
    assert pairs(said) == [("一只狗。", "1_a.jpg"), ("狗在跑。", "1_a.jpg")]
    assert set(said.queries["language"]) == {"zh"}


def test_flickr30k_cn_of_its_authors_has_words_and_parts_of_speech(tmp_path: Path) -> None:
    name = "flickr30kzhmbosontest"
    write_files(
        tmp_path / name,
        {
            f"ImageSets/{name}.txt": "1007129816\n1009434119\n",
            f"TextData/seg.{name}.caption.txt": "1007129816#zhm#0 一个:m 戴:v 着:ule 耳环:n 的:ude ，:wd 男人:n\n"
            "1009434119#zhm#0 一只:m 狗:n 在:p 草地:n 上:f 跑:v\n7#zhm#0 别的:n\n",
        },
    )
    for source in (tmp_path, tmp_path / name):
        said = read("flickr30k_cn", source)
        assert pairs(said) == [("一个戴着耳环的，男人", "1007129816"), ("一只狗在草地上跑", "1009434119")]
    assert list(said.images["file_name"]) == ["1007129816.jpg", "1009434119.jpg"]


def test_words_are_joined_as_chinese_is_written() -> None:
    assert join_segmented("一个:m 穿:v t恤:n 的:u New:nz York:nz 男孩:n") == "一个穿t恤的New York男孩"
    assert join_segmented("时间 10:30") == "时间10:30", "only letters after the colon are a part of speech"


def test_flickr30k_cn_as_copied_by_others_is_a_line_a_text(tmp_path: Path) -> None:
    write_files(
        tmp_path / "cna",
        {"test/flickr30k_cna_test.txt": "1007129816#0\t一个 男人\n", "flickr30k_cn_test.txt": "8#zhm#0\t狗\n"},
    )
    assert pairs(read("flickr30k_cn", tmp_path / "cna")) == [("狗", "8")]
    (tmp_path / "cna" / "flickr30k_cn_test.txt").unlink()
    assert pairs(read("flickr30k_cn", tmp_path / "cna")) == [("一个 男人", "1007129816")], "texts stay as they are"


def test_coco_cn_takes_the_texts_that_people_wrote(tmp_path: Path) -> None:
    write_files(
        tmp_path / "cc",
        {
            "coco-cn_test.txt": "COCO_val2014_000000217153\nCOCO_train2014_000000128475\n",
            "imageid.human-written-caption.txt": "COCO_val2014_000000217153#0\t一男一女。\n"
            "COCO_val2014_000000217153#1\t他们在玩手机。\nCOCO_train2014_000000128475#0\t三个甜甜圈\n"
            "COCO_train2014_000000000009#0\t不在其中\n",
            "imageid.manually-translated-caption.txt": "COCO_val2014_000000217153#0\t翻译。\n",
        },
    )
    said = read("coco_cn", tmp_path / "cc")
    assert len(said.queries) == 3
    assert "COCO_val2014_000000217153.jpg" in set(said.images["file_name"])
    other = read("coco_cn", tmp_path / "cc" / "imageid.manually-translated-caption.txt")
    assert pairs(other) == [("翻译。", "COCO_val2014_000000217153")]
    assert len(other.images) == 2, "the gallery is the split's"


COCO = {
    "images": [
        {"id": 7, "file_name": "000000000007.jpg", "width": 640, "height": 480, "license": 4, "coco_url": "http://c/7"},
        {"id": 8, "file_name": "000000000008.jpg", "width": 480, "height": 640},
    ],
    "annotations": [
        {"id": 70, "image_id": 7, "caption": "A dog on a beach.\n"},
        {"id": 71, "image_id": 7, "caption": "Sand and a dog."},
    ],
    "licenses": [{"id": 4, "name": "Attribution License", "url": "x"}],
}


def test_coco_captions_keep_sizes_licences_and_addresses(tmp_path: Path) -> None:
    write_files(tmp_path, {"annotations/captions_val2017.json": json.dumps(COCO)})
    said = read("coco_captions", tmp_path)
    assert pairs(said) == [("A dog on a beach.", "7"), ("Sand and a dog.", "7")]
    dog = said.images.iloc[0]
    assert (dog["width"], dog["height"], dog["licence"], dog["source_url"]) == (
        640,
        480,
        "Attribution License",
        "http://c/7",
    )
    assert len(said.images) == 2, "an image without a text only distracts"


def test_karpathys_split_holds_its_sentences(tmp_path: Path) -> None:
    sentence = {"tokens": ["a", "dog"], "raw": "A dog .", "imgid": 0, "sentid": 5}
    image = {
        "filepath": "val2014",
        "filename": "x.jpg",
        "imgid": 0,
        "cocoid": 99,
        "sentences": [sentence],
        "sentids": [5],
    }
    data = {"dataset": "coco", "images": [{**image, "split": "test"}, {**image, "split": "restval", "imgid": 1}]}
    write_files(tmp_path, {"dataset_coco.json": json.dumps(data)})
    said = read("karpathy", tmp_path)
    assert pairs(said) == [("A dog .", "99")]
    assert list(said.images["file_name"]) == ["val2014/x.jpg"]
    with pytest.raises(UserError, match=r"no images of the split 'dev'. Next: choose from restval, test"):
        read("karpathy", tmp_path, "dev")


def test_eccv_caption_takes_texts_from_cocos_files_where_they_lie_beside_it(tmp_path: Path) -> None:
    truth = {
        "original_caption_to_image.json": '{"70": [7], "71": [7], "80": [8]}',
        "eccv_caption_to_image.json": '{"70": [7, 8]}',
    }
    write_files(tmp_path / "a", truth)
    said = read("eccv_caption", tmp_path / "a")
    assert pairs(said) == [("COCO caption 70", "7"), ("COCO caption 70", "8")]
    assert len(said.images) == 2, "the gallery is all of COCO's test images"
    assert "shows the number" in said.known_limitations[0]
    write_files(tmp_path / "b", {**truth, "captions_val2014.json": json.dumps(COCO)})
    said = read("eccv_caption", tmp_path / "b")
    assert pairs(said)[0] == ("A dog on a beach.", "7")
    assert said.known_limitations == []
    assert len(read("eccv_caption", tmp_path / "a", "original").queries) == 3


def test_taisu_has_two_texts_of_an_image_and_names_files_after_addresses(tmp_path: Path) -> None:
    url = "https://img.example.com/a/b=1,c.d?x=2&more=things-that-are-cut-off"
    rows = f'url,caption\n"{url}",一只狗在海边#$#狗站在沙滩上\nhttps://other.org/x,一艘船\n'
    said = read("taisu", write_files(tmp_path / "t", {"part1.csv": rows}) / "part1.csv")
    name = url[8:48].translate(str.maketrans("", "", "/=.,"))
    assert pairs(said) == [("一只狗在海边", name), ("一艘船", "otherorgx"), ("狗站在沙滩上", name)]
    assert list(said.images["file_name"]) == [f"{name}.jpg", "otherorgx.jpg"]
    assert list(said.images["source_url"]) == [url, "https://other.org/x"] and said.licence == "CC BY-NC-SA 4.0"


def test_taisu_by_ids_is_read_in_part(tmp_path: Path) -> None:
    lines = "77\t一只狗#$#狗在跑\n78\t一艘船\n79\t两只猫\n"
    folder = write_files(tmp_path / "t", {"filtered_captions.txt": lines})
    assert pairs(read("taisu", folder)) == [("一只狗", "77"), ("一艘船", "78"), ("两只猫", "79"), ("狗在跑", "77")]
    assert pairs(read("taisu", folder, "1")) == [("一只狗", "77"), ("狗在跑", "77")]
    with pytest.raises(UserError, match=r"has a single part.*--split 1000"):
        read("taisu", folder, "test")


def test_wukong_names_images_and_where_they_were(tmp_path: Path) -> None:
    rows = 'dir,url,text\n000.jpg,https://a/0,"红色,连衣裙"\n001.jpg,https://a/1,海边日出\n'
    said = read("wukong_test", write_files(tmp_path / "w", {"wukong_test.csv": rows}))
    assert pairs(said) == [("海边日出", "001.jpg"), ("红色,连衣裙", "000.jpg")]
    assert list(said.images["source_url"]) == ["https://a/0", "https://a/1"]


def test_zeros_retrieval_has_a_query_a_line_and_its_matching_a_query_a_text(tmp_path: Path) -> None:
    lines = [
        {"text": "红 色 花", "image_path": "IQR_IQM/abc/1.jpg"},
        {"text": "红 色 花", "image_path": "IQR_IQM/abc/2.jpg"},
    ]
    matches = [{**line, "label": label} for line, label in zip(lines, (1, 0), strict=True)]
    write_files(
        tmp_path,
        {
            "IQR/val/short_itr_val.json": "".join(json.dumps(line) + "\n" for line in lines),
            "IQM/val/short_itm_val.json": "".join(json.dumps(line) + "\n" for line in matches),
        },
    )
    said = read("zero", tmp_path / "IQR")
    assert pairs(said) == [("红 色 花", "1.jpg"), ("红 色 花", "2.jpg")]
    assert len(said.queries) == 2
    said = read("zero", tmp_path / "IQM")
    assert len(said.queries) == 1
    assert sorted(said.qrels["relevance"]) == [0, 1], "people looked, and said no: that is no gap"
    with pytest.raises(UserError, match="give the folder of a task"):
        read("zero", tmp_path)


@pytest.mark.parametrize(
    "name", [name for name in importers.IMPORTERS.list_plugins() if name not in ("zero", "eccv_caption")]
)
def test_a_folder_with_nothing_in_it_is_refused_in_a_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError) as refused:
        read(name, tmp_path / "empty")
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError):
        read(name, tmp_path / "nowhere")


def test_an_unknown_format_answers_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'flickr30k_cn'"):
        read("flickr30kcn", Path("nowhere"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("captions.csv", "image,caption\n1.jpg,a dog\n2.jpg,a dog\n2.jpg,a boat\n"),
        ("captions.csv", "image;caption\n1.jpg;a dog\n2.jpg;a dog\n2.jpg;a boat\n"),
        ("names.csv", " Image ,Caption\n1.jpg,a dog\n2.jpg,a dog\n2.jpg,a boat\n"),
        ("lists.json", json.dumps([
            {"images": ["1.jpg", "2.jpg"], "captions": ["a dog"]}, {"images": "2.jpg", "captions": ["a boat", ""]},
        ])),
        ("openclip.tsv", "filepath\ttitle\n1.jpg\ta dog\n2.jpg\ta dog\n2.jpg\ta boat\n"),
        ("metadata.jsonl", "".join(
            json.dumps({"file_name": image, "text": text}) + "\n"
            for image, text in (("1.jpg", "a dog"), ("2.jpg", "a dog"), ("2.jpg", "a boat"))
        )),
    ],
)  # fmt: skip
def test_a_text_beside_two_images_is_one_query_with_two_right_ones(tmp_path: Path, name: str, text: str) -> None:
    said = read("pairs", write_files(tmp_path / "own", {name: text}) / name)
    assert pairs(said) == [("a boat", "2.jpg"), ("a dog", "1.jpg"), ("a dog", "2.jpg")]
    assert len(said.queries) == 2 and set(said.queries["style"]) == {"caption"}


def test_grades_and_splits_of_a_table_are_taken_and_empty_cells_are_listed(tmp_path: Path) -> None:
    rows = "红色的车,1.jpg,2,test\n红色的车,2.jpg,0,test\n红色的车,3.jpg,1,train\n,4.jpg,1,test\nboat,,1,test\n"
    table = write_files(tmp_path / "own", {"pairs.csv": "query,image,grade,split\n" + rows})
    said = read("pairs", table, "test")
    assert said.qrels[["image", "relevance"]].to_numpy().tolist() == [["1.jpg", 2], ["2.jpg", 0]]
    assert set(said.queries["style"]) == {"query"} and set(said.queries["language"]) == {"zh"}
    assert list(said.grades) == ["2", "0"]
    assert [(kind, reason) for kind, _, reason, _ in said.rejections] == [
        ("query", "empty_text"),
        ("image", "missing_file_name"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", r"has no column of images \(it has a, b\)"),
        ("image,b\n1,2\n", "has no column of texts"),
        ("image,text,grade\n1,2,high\n", "line 2 .*has the invalid grade 'high'"),
        ("image,text,grade\n1,2,0.5\n", "line 2 .*has the invalid grade '0.5'"),
        ("image,text,grade\n1,2,inf\n", "line 2 .*has the invalid grade 'inf'"),
    ],
)
def test_a_table_without_pairs_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        read("pairs", write_files(tmp_path, {"own.csv": text}) / "own.csv")


def test_answers_are_grades_and_a_pair_that_nobody_judged_is_listed(tmp_path: Path) -> None:
    rows = "dog,1.jpg,True\ndog,2.jpg,FALSE\ndog,3.jpg,\n狗,1.jpg,相关\n狗,2.jpg,不相关\n"
    said = read("pairs", write_files(tmp_path, {"pairs.csv": "query,image,relevance\n" + rows}) / "pairs.csv")
    assert said.qrels["relevance"].tolist() == [1, 0, 1, 0]
    assert said.rejections == [("query", "pairs.csv line 4", "no_grade", "")]


def test_captions_of_coco_that_are_empty_or_missing_do_not_refuse_the_file(tmp_path: Path) -> None:
    whole = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": [{"id": 1, "image_id": 1, "caption": "a dog"}, {"id": 2, "image_id": 1, "caption": None}],
    }
    said = read("coco_captions", write_files(tmp_path, {"c.json": json.dumps(whole)}) / "c.json")
    assert said.queries["text"].tolist() == ["a dog", ""], "the second goes into the ledger as empty"


def test_a_table_that_is_taken_for_our_own_export_is_told_its_format(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a file; csv imports the folder of an export.*use pairs"):
        read("csv", write_files(tmp_path, {"own.csv": "image,text\n"}) / "own.csv")
