"""What makes each condition what it is: fog hides the far, streaks fall, glare stays, shadows come nearer."""

import numpy as np
import pytest
from test_conditions_conformance import capture, scene

import skidpad as sp
from skidpad.core.images import Camera, Capture, decode
from skidpad.core.stimuli import Params, Recipe
from skidpad.stimuli.conditions.light import sun_lx
from skidpad.stimuli.conditions.optics import sky_of
from skidpad.stimuli.conditions.precipitation import rain_extinction_per_m, snow_extinction_per_m
from skidpad.stimuli.pictures import stimuli
from skidpad.stimuli.registry import conditions_of, stimuli_of

BIG = 160, 320


def shown(name, frames, times_s=(0.0,), **params):
    made = stimuli((name,))[name]
    taken = Capture(Camera.guess(*frames.shape[1:3]), np.asarray(times_s, float))
    return made.apply_at(frames, made.space.filled(name, Params(**params)), taken).astype(int)


def test_fog_leaves_what_koschmieder_says():
    """On black and on white: what comes through at a row is exp(-3.912 d / V) of the contrast; clear air is 10 km."""
    camera = Camera.guess(*BIG)
    pictures = [np.full((1, *BIG, 3), level, np.uint8) for level in (60, 120)]
    low, high = (shown("fog", picture, visibility_m=60.0)[0, ..., 1] for picture in pictures)
    forward, down, _ = camera.rays()
    for row in (90, 110, 150):
        metres = camera.height_m / down[row] * forward[row]
        # the air is as bright as the picture's sky, so a brighter picture has brighter air
        through = np.exp(-3.912 * (1 / 60.0 - 1 / 10_000.0) * metres)
        assert low[row, 155:165].mean() == pytest.approx(60, abs=2)
        assert high[row, 155:165].mean() == pytest.approx(120, abs=2)
        sky = np.full((1, *BIG, 3), 60, np.uint8)
        sky[:, :60] = 200
        seen = shown("fog", sky, visibility_m=60.0)[0, row, 155:165, 1].mean()
        assert seen == pytest.approx(60 * through + 200 * (1 - through), abs=12)


def test_fog_by_night_is_not_white():
    dark = scene(1, *BIG) // 8
    assert shown("fog", dark, visibility_m=40.0).mean() < 60


def test_streaks_fall_and_come_back_for_the_same_time():
    frames = np.repeat(scene(1, *BIG), 3, axis=0)
    out = shown("rain", frames, (0.0, 0.05, 0.0), mm_per_h=50.0)
    assert np.array_equal(out[0], out[2])
    assert 0.001 < np.mean(np.abs(out[0] - out[1]).max(axis=-1) > 4) < 0.6, "some pixels have a streak, not all"


def test_heavier_rain_has_more_streaks_and_a_darker_road():
    frames = np.repeat(scene(1, *BIG), 2, axis=0)
    streaks = [np.abs(np.diff(shown("rain", frames, (0.0, 0.05), mm_per_h=rate), axis=0)).mean() for rate in (2.0, 12.0, 50.0)]
    assert streaks[0] < streaks[1] < streaks[2]
    assert shown("wet-road", frames[:1], wetness=1.0)[0, -20:, 150:170].mean() < 0.95 * frames[0, -20:, 150:170].mean()


def test_a_wet_road_mirrors_without_edges_and_leaves_cars_as_they_are():
    frame = np.full((1, 240, 320, 3), 90, np.uint8)
    frame[:, :101] = 220
    frame[:, 20:101, 200:230] = 25  # a trunk before the sky
    frame[:, 112:126, 120:140] = 12  # a car ahead
    wet = shown("wet-road", frame, wetness=1.0)[0].mean(axis=-1)
    assert np.abs(np.diff(wet[130:, 60:300], axis=1)).max() < 4, "the trunk's mirror is soft"
    assert wet[140, 215] < wet[140, 60] - 3, "and darker than the sky's"
    assert wet[117:121, 126:134].max() < 16
    assert wet[140, 160] > 95, "the road around it mirrors the sky"


def test_rain_takes_no_sunlit_slope_for_sky():
    """White patches among yellow ones are overexposed foliage, and white things that do not reach the upper edge are cars and signs."""
    rng = np.random.default_rng(0)
    slope = np.full((240, 320, 3), 70, np.uint8)
    patches = np.kron(rng.random((16, 64)) < 0.5, np.ones((5, 5))).astype(bool)
    slope[:80] = np.where(patches[..., None], 255, (235, 215, 150))
    cloudy = np.full((240, 320, 3), 70, np.uint8)
    cloudy[:80] = np.where(patches[..., None], 255, (200, 220, 250))
    camera = Camera.guess(240, 320)
    assert sky_of(slope, camera).share[10:70].mean() < 0.1
    assert sky_of(cloudy, camera).share[10:70].mean() > 0.9
    sign = np.full((240, 320, 3), 70, np.uint8)
    sign[45:100, 60:200] = 255
    assert sky_of(sign, camera).share.max() == 0.0


@pytest.mark.parametrize("name", ["crack", "scratches", "lens-dirt", "insects"])
def test_nothing_on_the_glass_glows_by_night(name):
    night = scene(1, *BIG) // 12
    made = stimuli((name,))[name]
    worst = made.apply(night, made.space.grid[-1])
    assert int(worst.max()) <= int(night.max()) + 30
    assert not np.array_equal(worst, night)


def test_glare_stays_where_it_is_and_flakes_do_not():
    frames = np.repeat(scene(1, *BIG), 2, axis=0)
    sun = shown("low-sun", frames, (0.0, 0.7), elevation_deg=6.0, strength=1.0)
    assert np.array_equal(sun[0], sun[1])
    snow = shown("snow", frames, (0.0, 0.7), mm_per_h=3.0)
    assert np.abs(snow[0] - snow[1]).max() > 20


def test_the_sun_dazzles_where_it_stands():
    frame = np.full((1, *BIG, 3), 90, np.uint8)
    frame[:, :70] = (150, 180, 220)
    left = shown("low-sun", frame, elevation_deg=6.0, azimuth_deg=15.0, strength=1.0)[0].mean(axis=-1)
    assert left[:, :160].mean() > left[:, 160:].mean() + 5
    row, column = np.unravel_index(left.argmax(), left.shape)
    assert (row < 70, column < 140) == (True, True)


def test_headlights_are_two_and_nearer_ones_are_further_apart():
    far, near = (shown("headlights", scene(1, *BIG), distance_m=metres)[0, 50:100].max(axis=(0, 2)) for metres in (200.0, 15.0))
    assert far[:160].max() > 220
    assert (np.flatnonzero(near > 220).max() - np.flatnonzero(near > 220).min()) > 3 * (
        np.flatnonzero(far > 220).max() - np.flatnonzero(far > 220).min()
    )


def test_shadows_come_nearer_with_time():
    frames = np.full((2, *BIG, 3), 120, np.uint8)
    still, later = shown("cast-shadows", frames, (0.0, 0.5), share=0.4)
    assert np.abs(still - later)[100:].mean() > 5
    assert np.array_equal(still[:50], frames[0, :50]), "nothing falls on what is above the horizon"
    dark = (still[100:].mean(axis=-1) < 90).mean()
    assert 0.1 < dark < 0.8


def test_scales_are_the_published_ones():
    assert 3.912 / rain_extinction_per_m(50.0) == pytest.approx(915, rel=0.05)
    assert 3.912 / snow_extinction_per_m(4.0) == pytest.approx(453, rel=0.05)
    assert sun_lx(90.0) == pytest.approx(103_700, rel=0.02)
    assert sun_lx(3.0) < 0.06 * sun_lx(45.0)


def test_an_instance_holds_its_parameters():
    assert str(sp.Fog(visibility_m=100)) == "fog(visibility_m=100)"
    assert sp.Fog(visibility_m=100).space.grid == (Params(visibility_m=100, seed=0),)
    assert len(sp.Fog().space.grid) == 5
    assert sp.Fog(visibility_m=80) + sp.Blur(kind="gaussian", size=3) + sp.Rain(mm_per_h=4) == (
        "fog(visibility_m=80)+blur(kind=gaussian,size=3)+rain(mm_per_h=4)"
    )
    with pytest.raises(sp.SkidpadError, match=r"'fog' takes visibility_m in \[20, 10000\]; got visibility_m=5"):
        sp.Fog(visibility_m=5)
    with pytest.raises(sp.SkidpadError, match="'low-sun' needs"):
        sp.LowSun(azimuth_deg=3)


def test_former_names_are_read_as_what_they_were():
    old = Recipe.from_json('[["fog",{"density":0.5,"seed":0}],["rain",{"intensity":0.2,"seed":0,"slant_deg":12.0}]]')
    assert old.name == "deeptest-fog+deeptest-rain"
    (written,), _ = conditions_of(["fog(density=0.3)+rain(mm_per_h=5)"])
    assert written.text == "deeptest-fog(density=0.3)+rain(mm_per_h=5)"
    # a run that named them by their bare former names is replayed with what its recipes mean
    frames = scene()
    again = old.apply(frames, stimuli_of(["fog", "rain"]), capture(1))
    assert np.array_equal(again, old.apply(frames, stimuli(("deeptest-fog", "deeptest-rain"))))


def test_a_capture_without_the_right_times_is_refused():
    with pytest.raises(sp.SkidpadError, match="one time a frame; got 1 for 2"):
        sp.Fog().apply_at(scene(2), Params(visibility_m=50.0, seed=0), capture(1))


@pytest.mark.real_data
def test_real_roads_stay_visible_at_mild_severities(shared_data):
    files = sorted((shared_data / "udacity-ch2-test" / "center").glob("*.jpg"))[300::1500]
    frames = np.stack([frame for file in files if (frame := decode(file.read_bytes())) is not None])
    for name in ("fog", "rain", "snow", "dusk", "overcast", "haze", "wet-road"):
        made = stimuli((name,))[name]
        out = made.apply(frames, made.space.grid[1])
        for original, changed in zip(frames[:, -90:], out[:, -90:], strict=True):
            assert np.corrcoef(original.mean(axis=-1).ravel(), changed.mean(axis=-1).ravel())[0, 1] > 0.8, name
