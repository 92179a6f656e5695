"""Names, groups, recipes, composition; and that importing costs no torch."""

import subprocess
import sys
from itertools import groupby

import numpy as np
import pytest
import torch
from transforms_pictures import smooth

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.stimuli import Params, Recipe, Step, grid_recipes
from skidpad.stimuli.pictures import COMPOSITE, SIMPLE, TRANSFORMS, stimuli

DEEPTEST = (*SIMPLE, *COMPOSITE)


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_the_grid_is_ninety_recipes_in_a_stable_order():
    recipes = grid_recipes(stimuli(DEEPTEST))
    assert recipes == grid_recipes(stimuli(DEEPTEST))
    assert len(set(recipes)) == 90
    assert tuple(name for name, _ in groupby(recipe.name for recipe in recipes)) == (*SIMPLE, *COMPOSITE)
    assert [recipe.to_json() for recipe in grid_recipes(stimuli(["deeptest-rain", "blur"]))][:1] == [
        '[["deeptest-rain",{"intensity":0.1,"seed":0,"slant_deg":12.0}]]'
    ]
    assert len(grid_recipes(stimuli(SIMPLE))) == 70


def test_the_order_does_not_hang_on_imports():
    done = run_python("import skidpad.stimuli.pictures.deeptest; from skidpad.stimuli.pictures import stimuli; print(*stimuli())")
    assert done.stdout.split()[:9] == [*DEEPTEST], done.stderr


def test_recipes_come_back_from_json():
    assert all(Recipe.from_json(recipe.to_json()) == recipe for recipe in grid_recipes(stimuli()))


def test_stimuli_are_the_named_ones():
    assert set(stimuli()) == set(TRANSFORMS.names())
    assert tuple(stimuli(("deeptest-fog", "scale"))) == ("deeptest-fog", "scale")
    with pytest.raises(UnknownNameError, match="did you mean 'brightness'"):
        stimuli(["brightnes"])


def test_steps_apply_to_the_running_image():
    frames = smooth(2, 60, 80)
    turn, blur = Params(angle_deg=9.0), Params(kind="gaussian", size=5)
    rows = stimuli()
    both = Recipe((Step("rotation", turn), Step("blur", blur))).apply(frames, rows)
    assert np.array_equal(both, rows["blur"].apply(rows["rotation"].apply(frames, turn), blur))
    assert not np.array_equal(both, rows["blur"].apply(frames, blur))
    assert not np.array_equal(both, rows["rotation"].apply(frames, turn))


def test_three_steps_on_torch_agree_with_numpy():
    frames = smooth(2, 60, 80)
    steps = (Step("deeptest-fog", Params(density=0.4, seed=3)), Step("scale", Params(sx=1.3, sy=1.1)), Step("contrast", Params(gain=1.2)))
    recipe = Recipe(steps)
    apart = np.abs(recipe.apply(frames, stimuli()).astype(int) - recipe.apply(torch.from_numpy(frames), stimuli()).numpy())
    assert apart.mean() < 0.5


def test_out_of_bounds_is_refused():
    with pytest.raises(BadParametersError, match=r"'deeptest-fog' takes density in \[0, 1\]; got density=2.0"):
        Recipe.of("deeptest-fog", Params(density=2.0, seed=0)).apply(smooth(1, 8, 8), stimuli())


def test_numpy_frames_never_import_torch():
    done = run_python(
        "import sys, numpy as np\n"
        "from skidpad.core.stimuli import grid_recipes\nfrom skidpad.stimuli.pictures import stimuli\n"
        "rows = stimuli()\n"
        "for recipe in grid_recipes(stimuli()): recipe.apply(np.zeros((2, 16, 16, 3), np.uint8), rows)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
def test_a_forked_worker_has_threads_of_its_own():
    done = run_python(
        "import os, cv2, numpy as np\n"
        "from skidpad.stimuli.pictures import stimuli\n"
        "cv2.setNumThreads(3)\n"
        "blur = stimuli()['blur']\n"
        "frames = np.random.default_rng(0).integers(0, 256, (8, 20, 30, 3), dtype=np.uint8)\n"
        "expected = blur.apply(frames, blur.space.grid[7])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if np.array_equal(blur.apply(frames, blur.space.grid[7]), expected) else 3)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert done.returncode == 0, done.stderr
