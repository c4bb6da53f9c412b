"""Lines of logs that older versions wrote: read, and written again byte for byte, so that their ids stay."""

import pytest

from querytruth.sets.decision_records import (
    HumanCaption,
    ImagePairDecision,
    Override,
    QueryDecision,
    effective,
    parse_decision,
)

AT = '"at": "2026-11-01T11:00:00+00:00"'
EDIT = (
    '{"at": "2026-11-01T10:00:00+00:00", "decision": "edit", "image_id": null, '
    '"new_text": "On the kitchen table, there is a vase and two purple flowers. (edited)", "note": "", '
    '"query_id": "q_0162a2da062679aa9641", "relevance": null, "reviewer": "ann", "source": "export_1", '
    '"text": "On the kitchen table, there is a vase and two purple flowers.", "view": "queries"}'
)
DROP = (
    '{"at": "2026-11-01T10:00:00+00:00", "decision": "drop", "image_id": null, "new_text": null, "note": "", '
    '"query_id": "q_0d6fee20ffc30c7b07fc", "relevance": null, "reviewer": "ann", "source": "export_1", '
    '"text": "客厅里有一盏落地灯和一把蓝色的椅子。", "view": "queries"}'
)
UNDO = (
    '{"at": "2026-11-01T10:00:00+00:00", "decision": "undo", "image_id": null, "new_text": null, "note": "", '
    '"query_id": "q_0d6fee20ffc30c7b07fc", "relevance": null, "reviewer": "ann", "source": "export_1", '
    '"text": "客厅里有一盏落地灯和一把蓝色的椅子。", "undoes": "d_fd7c8e35d4935d163873", "view": "queries"}'
)
PAIR = (
    f'{{{AT}, "decision": "different", "note": "not the same", '
    '"pictures": ["img_a729e6607d8519b77cb7", "img_c773cf290abdfdfb9c0e"], "reviewer": "bob", "undoes": null, '
    '"view": "duplicates"}'
)
OVERRIDE = (
    f'{{{AT}, "caption": "一个花瓶和两朵紫色的花，在餐桌上，窗边。", "decision": "rescue", '
    '"item": "q_1b5f856de011190ce913", "name": "caption", "note": "only this one stands by the window", '
    '"reviewer": "bob", "undoes": null, "view": "rejects"}'
)
CAPTION = f'{{{AT}, "image_id": "img_1", "language": "zh", "reviewer": "bob", "text": "一只猫\\n窗边", "undo": false}}'


@pytest.mark.parametrize(
    ("line", "kind", "decision_id"),
    [
        (EDIT, QueryDecision, "d_a5a3cc9820922346932a"),
        (DROP, QueryDecision, "d_fd7c8e35d4935d163873"),
        (UNDO, QueryDecision, "d_72ddaba19d1b028cdfe3"),
        (PAIR, ImagePairDecision, "d_496e1f519bb4c4fb1b3d"),
        (OVERRIDE, Override, "d_8f146ab63cac79d33f6f"),
        (CAPTION, HumanCaption, "d_c1cfa1f95c68f7744204"),
    ],
)
def test_a_stored_line_comes_back_byte_for_byte(line: str, kind: type, decision_id: str) -> None:
    decision = parse_decision(line)
    assert type(decision) is kind and decision.as_json() == line and decision.decision_id == decision_id


def test_a_stored_undo_undoes_what_it_did() -> None:
    edit, drop, undo = (parse_decision(line) for line in (EDIT, DROP, UNDO))
    assert effective([edit, drop, undo]) == [edit]
