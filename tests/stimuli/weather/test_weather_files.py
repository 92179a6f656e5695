"""A weather's card at load: numbers that no training writes, cards that were edited by hand, weights of other sizes."""

from dataclasses import replace
from pathlib import Path

import pytest
from weather_toys import toy_card, toy_weights

from skidpad.stimuli.weather.files import MANY_LOST, BadWeatherError, Styles, WeatherCard, load_weather, save_weather
from skidpad.stimuli.weather.pretrained import pretrained_names, pretrained_weather

STYLES = Styles((0.1, 0.2, 0.3), (1.0, 0.0, 2.0))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_weather(tmp_path / "snow", replace(toy_card(), styles=STYLES), toy_weights())
    return tmp_path / "snow.toml"


def edit(card: Path, before: str, after: str, *, keep_checksum: bool) -> None:
    """Edits a card by hand; without its checksum it is one that an earlier version wrote."""
    lines = [line for line in card.read_text().splitlines() if keep_checksum or not line.startswith("card_sha256")]
    assert before in lines
    card.write_text("\n".join(after if line == before else line for line in lines))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("size_px = 32", "size_px = -64", "size_px is a whole number of 1 to 8192; got -64"),
        ("size_px = 32", "size_px = 0", "size_px is a whole number"),
        ("size_px = 32", "size_px = 64.0", "size_px is a whole number"),
        ("size_px = 32", "size_px = true", "size_px is a whole number"),
        ("size_px = 32", "size_px = 1000000", "size_px is a whole number of 1 to 8192"),
        ("size_px = 32", "size_px = 34", "size_px is a multiple of 4"),
        ("crop_px = 32", "crop_px = 64", "crop_px at most size_px"),
        ("steps = 1", "steps = 0", "steps is a whole number of 1 or more"),
        ("batch_size = 1", "batch_size = -1", "batch_size is a whole number of 1 or more"),
        ("contrast = 0.0", "contrast = nan", "contrast is 0 or more"),
        ("filters = 4", "filters = -4", "filters must be at least 1; got -4"),
        ("filters = 4", "filters = 4.5", "filters must be a whole number; got 4.5"),
        ("filters = 4", "filters = 100000000", "filters is a whole number of 1 to 1024"),
        ("halvings = 2", "halvings = 1000000000", "halvings is a whole number of 1 to 6"),
        ("mean = [0.1, 0.2, 0.3]", "mean = [0.1, 0.2]", "styles are 3 finite numbers"),
        ("mean = [0.1, 0.2, 0.3]", "mean = [0.1, 0.2, inf]", "styles are 3 finite numbers"),
        ("deviation = [1.0, 0.0, 2.0]", "deviation = [1.0, 0.0, -2.0]", "deviations of 0 or more"),
    ],
)
def test_numbers_that_no_training_writes_are_refused(saved: Path, before: str, after: str, message: str) -> None:
    edit(saved, before, after, keep_checksum=False)
    with pytest.raises(BadWeatherError, match=message) as refused:
        load_weather(saved)
    assert f"{saved} is damaged" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("filters = 4", "filters = 8"),
        ("blocks = 2", "blocks = 1"),
        ("blocks = 2", "blocks = 3"),
        ("hidden = 8", "hidden = 9"),
        ('method = "munit"', 'method = "unit"'),
    ],
)
def test_weights_of_other_sizes_than_the_card_says_are_refused_in_one_sentence(saved: Path, before: str, after: str) -> None:
    edit(saved, before, after, keep_checksum=False)
    with pytest.raises(
        BadWeatherError, match=r"the weights beside .*snow\.toml are not those of a .*; restore both files together"
    ) as refused:
        load_weather(saved)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("before", "after"),
    [("size_px = 32", "size_px = 64"), ("rendered = true", "rendered = false"), ("scales = 1", "scales = 2"), ("seed = 0", "seed = 1")],
)
def test_what_no_shape_tells_is_guarded_by_the_cards_checksum(saved: Path, before: str, after: str) -> None:
    edit(saved, before, after, keep_checksum=True)
    with pytest.raises(BadWeatherError, match="was changed since it was written, and only its name may be"):
        load_weather(saved)


def test_a_weather_may_be_renamed_and_its_card_laid_out_anew(saved: Path) -> None:
    whole, _ = load_weather(saved)
    edit(saved, 'name = "toy"', 'name = "snow_day" # as the classifier calls it', keep_checksum=True)
    assert load_weather(saved)[0] == replace(whole, name="snow_day")


def test_a_card_of_an_earlier_version_still_loads(saved: Path) -> None:
    whole, weights = load_weather(saved)
    edit(saved, "seed = 0", "seed = -1", keep_checksum=False)
    assert load_weather(saved)[0] == replace(whole, seed=-1)
    assert len(weights) == len(load_weather(saved)[1])


def test_a_card_keeps_how_often_the_road_was_lost_and_hashes_as_before(saved: Path, tmp_path: Path) -> None:
    former, weights = load_weather(saved)
    assert "road_lost" not in saved.read_text()
    assert (former.road_lost, former.loses_road) == (None, False)
    card = save_weather(tmp_path / "lost", replace(former, road_lost=0.6), weights)
    assert (card.loses_road, replace(card, road_lost=MANY_LOST).loses_road) == (True, False)
    assert load_weather(tmp_path / "lost")[0] == card
    assert card.sha256 == former.sha256
    for after, keep_checksum, message in (("0.1", True, "only its name may be"), ("1.5", False, "road_lost is 0 to 1; got 1.5")):
        save_weather(tmp_path / "lost", card, weights)
        edit(tmp_path / "lost.toml", "road_lost = 0.6", f"road_lost = {after}", keep_checksum=keep_checksum)
        with pytest.raises(BadWeatherError, match=message):
            load_weather(tmp_path / "lost")


def test_a_card_names_its_pictures_and_says_whether_they_were_rendered() -> None:
    card = replace(toy_card(), target="sets/night", rendered=True)
    assert card.learned_from == "night (rendered)"
    assert replace(card, rendered=False).learned_from == "night"
    rain, _ = load_weather(pretrained_weather("rain"))
    assert rain.learned_from.startswith("51 pictures of rain or wet roads of comma10k (MIT), bonnet cut off, 240 of its evenly lit days")
    assert rain.drawn == "lens-drops(share=0.05)"


def test_the_weathers_that_come_along_carry_a_checksum() -> None:
    for name in pretrained_names():
        card, _ = load_weather(pretrained_weather(name))
        text = pretrained_weather(name).read_text()
        assert "card_sha256" in text
        assert WeatherCard.from_toml(card.to_toml(), name) == card
