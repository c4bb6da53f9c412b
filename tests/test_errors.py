"""Errors are one line, wherever they are raised."""

import pickle

from querytruth.errors import UserError, suggest_choice


def test_an_error_says_item_stage_reason_and_next_step_and_survives_the_way_from_a_worker() -> None:
    error = UserError("read images", "a.jpg", "is gone", "put it back")
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error) == "a.jpg (read images): is gone. Next: put it back"
    assert (back.stage, back.item, back.reason, back.next_step) == ("read images", "a.jpg", "is gone", "put it back")


def test_a_near_miss_is_named_and_else_the_choices() -> None:
    assert suggest_choice("precison", ["gallery", "precision"]) == "did you mean 'precision'?"
    assert suggest_choice("xyz", ["gallery", "precision"]) == "choose from gallery, precision"


def test_long_choices_are_cut_and_half_a_name_gets_all_that_begin_with_it() -> None:
    assert suggest_choice("coco", ["beir", "coco_captions", "coco_cn"]) == "did you mean 'coco_captions' or 'coco_cn'?"
    listed = suggest_choice("xyz", [f"{number} {'a dog by the sea ' * 4}" for number in range(20)])
    assert listed.endswith(", …") and len(listed) < 260


def test_an_error_is_one_line_whatever_a_library_says() -> None:
    error = UserError("read", "a\nb.yaml", 'is not allowed\n  in "<text>", position 0', "fix\r\nit")
    assert str(error) == 'a b.yaml (read): is not allowed in "<text>", position 0. Next: fix it'
    assert error.reason == 'is not allowed in "<text>", position 0'
