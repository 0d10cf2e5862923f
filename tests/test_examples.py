"""The examples do what they say."""

import importlib.util
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    place = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_a_loop_of_ones_own_finds_the_top_by_the_bonus_alone():
    """The flag is at 0.45; the policy that does not learn never gets beyond 0."""
    rights = load("cleanrl_style").main("rnd", 40)
    assert rights[:5].max() < 0
    assert np.median(rights[-10:]) > 0.45


def test_stable_baselines_learns_with_a_bonus_that_wears_off():
    import torch

    torch.set_num_threads(1)
    env = load("sb3_ppo").main("rnd", 4 * 8 * 128)
    assert len(env.means) == 4
    assert 0 < env.means[-1] < env.means[1]
