"""Run folders made by hand, and what is drawn of them; a policy that was never trained, filmed."""

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import imageio_ffmpeg
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.patches import Rectangle

from cim import video
from cim.agents.base import seen
from cim.errors import UserError
from cim.parts.running import whiten
from cim.parts.skills import Skills
from cim.plots import coverage, curves, draw, skills
from cim.plots.style import U_MAZE, categorical, cyclic, millions
from cim.runs import Run
from cim.train import Config, fresh, resolve

CONFIG = {"format": 1, "env": "Ant", "method": {"name": "cim"}, "seed": 3, "seeds": 2}


def make(folder, metrics=(), report=None, arrays=None, **config):
    (folder / "results").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    if report is not None:
        (folder / "results" / "evaluation.json").write_text(json.dumps(report))
    if arrays is not None:
        np.savez(folder / "results" / "trajectories.npz", **arrays)
    return Run(folder)


def walks(seeds, episodes, z, steps=12):
    """Random walks; the odd ones end early."""
    rng = np.random.default_rng(0)
    paths = rng.normal(size=(seeds, episodes, steps, 2)).cumsum(axis=2).astype(np.float32)
    paths[:, 1::2, steps // 2 :] = np.nan
    drawn = z if isinstance(z, np.ndarray) else rng.normal(size=(seeds, episodes, z))
    return {"paths": paths, "skills": drawn.astype(np.float32), "step": np.array(20_000_000)}


def visited(seeds=2):
    """Four by three cells over x in [0, 8], y in [-1, 2]."""
    visits = np.zeros((seeds, 4, 3), np.int64)
    visits[:, 3, 0] = 7
    visits[0, 0, 2] = 100
    bins = {"x": [0.0, 8.0], "y": [-1.0, 2.0], "cells": [4, 3]}
    return visits, {"episodes": 50, "coverage": {"bins": bins}}


def curve(name, *rows):
    """A line of metrics for each row: its step, then a value a seed."""
    return [{"step": step, "iteration": 1, "wall_s": 0.5, name: values} for step, *values in rows]


def lines_of(panel):
    return [line for line in panel.lines if line.get_linestyle() != "None"]


def test_opposite_directions_have_colours_far_apart_on_screen_and_in_grey_or_hue():
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    here, there = cyclic(angles), cyclic(angles + np.pi)
    assert np.abs(here - there).max(axis=1).min() > 0.3
    assert np.abs(cyclic(np.array([0.0])) - cyclic(np.array([2 * np.pi]))).max() < 1e-6
    assert np.abs(np.diff(cyclic(np.linspace(0, 2 * np.pi, 721)), axis=0)).max() < 0.05
    grey = cyclic(np.radians([150.0, 330.0])) @ [0.2126, 0.7152, 0.0722]
    assert grey[0] - grey[1] > 0.2


def test_colour_is_of_the_direction_not_the_length():
    z = np.array([[0.3, -0.4], [0.6, -0.8], [3.0, -4.0], [-0.3, 0.4]])
    colours = skills.colours(z)
    np.testing.assert_allclose(colours[0], colours[1], atol=1e-12)
    np.testing.assert_allclose(colours[0], colours[2], atol=1e-12)
    assert np.abs(colours[0] - colours[3]).max() > 0.3


def test_colour_of_wider_and_narrower_skills():
    wide = np.array([[0.0, 1.0, 5.0], [0.0, 2.0, -7.0], [0.0, -1.0, 5.0]])
    colours = skills.colours(wide)
    np.testing.assert_allclose(colours[0], colours[1])
    assert np.abs(colours[0] - colours[2]).max() > 0.3
    np.testing.assert_allclose(skills.colours(np.array([[0.2], [0.9]])), cyclic(np.zeros(2)))
    assert len(np.unique(skills.colours(np.zeros((5, 0))), axis=0)) == 1


@pytest.mark.parametrize("count", [2, 8, 9, 30])
def test_one_hot_skills_have_a_colour_each(count):
    colours = skills.colours(np.eye(count))
    assert len(np.unique(colours.round(3), axis=0)) == count
    np.testing.assert_array_equal(colours, categorical(count))


def test_trajectories_are_drawn_where_they_went_in_the_colour_of_their_skill(tmp_path):
    arrays = walks(2, 5, 2)
    figure = skills.picture(make(tmp_path / "a", arrays=arrays))
    assert [panel.get_title() for panel in figure.axes] == ["seed 3", "seed 4"]
    for s, panel in enumerate(figure.axes):
        drawn = lines_of(panel)
        assert len(drawn) == 5
        for e, line in enumerate(drawn):
            np.testing.assert_array_equal(line.get_xydata(), arrays["paths"][s, e])
            np.testing.assert_array_equal(line.get_color(), skills.colours(arrays["skills"][s])[e])
        [starts] = [line for line in panel.lines if line.get_linestyle() == "None"]
        np.testing.assert_array_equal(starts.get_xydata(), arrays["paths"][s, :, 0])
        assert panel.get_aspect() == 1
        assert panel.get_xlabel() == "x (m)"
        (x0, x1), (y0, y1) = panel.get_xlim(), panel.get_ylim()
        low, high = (f(arrays["paths"], axis=(0, 1, 2)) for f in (np.nanmin, np.nanmax))
        assert x0 < low[0] < high[0] < x1 < x0 + 1.5 * np.ptp([x0, x1])
        assert y0 < low[1] < high[1] < y1
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert figure.axes[0].get_ylabel() == "y (m)"
    assert figure.get_suptitle() == "cim on Ant, 20M steps: trajectories by the direction of z"


def test_the_wheel_shows_the_colours_of_the_lines(tmp_path):
    figure = skills.picture(make(tmp_path / "a", arrays=walks(1, 3, 2)))
    [wheel] = figure.axes[0].child_axes
    [image] = wheel.images
    rgba = np.asarray(image.get_array())
    if image.origin == "upper":
        rgba = rgba[::-1]
    for z, row, column in [((1, 0), 150, 270), ((0, 1), 270, 150), ((-1, 0), 150, 30)]:
        colour = skills.colours(np.array([z, (0.6, 0.8)], float))[0]
        np.testing.assert_allclose(rgba[row, column, :3], colour, atol=0.01)
    assert rgba[150, 150, 3] == rgba[0, 0, 3] == 0


def test_six_seeds_and_two_hundred_trajectories_at_most(tmp_path):
    figure = skills.picture(make(tmp_path / "a", arrays=walks(7, 210, 0), seeds=7))
    assert len(figure.axes) == 6
    assert [len(lines_of(panel)) for panel in figure.axes] == [200] * 6
    assert "6 of 7 seeds" in figure.get_suptitle()


def test_skills_of_many_dimensions_and_of_few_are_named(tmp_path):
    wide = skills.picture(make(tmp_path / "wide", arrays=walks(2, 4, 5)))
    assert "first 2 of 5 dimensions" in wide.get_suptitle()
    one_hot = np.eye(3)[[[0, 1, 2, 1], [2, 2, 0, 1]]]
    figure = skills.picture(make(tmp_path / "few", arrays=walks(2, 4, one_hot)))
    legend = figure.axes[1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["0", "1", "2"]
    last = lines_of(figure.axes[0])[2].get_color()
    np.testing.assert_array_equal(legend.get_lines()[2].get_color(), last)


def test_walls_of_the_maze_leave_the_u_open(tmp_path):
    figure = skills.picture(make(tmp_path / "a", arrays=walks(1, 3, 2), env="PointMaze"))
    walls = [p.get_bbox() for p in figure.axes[0].patches if isinstance(p, Rectangle)]

    def inside(x, y):
        return any(box.contains(x, y) for box in walls)

    free = [(-1, 1), (0, 1), (1, 1), (1, 0), (-1, -1), (0, -1), (1, -1)]
    assert not any(inside(x, y) for x, y in free)
    assert inside(-1, 0)
    assert inside(0, 0)
    assert all(inside(2, y) and inside(y, -2) for y in range(-2, 3))
    assert len(walls) == sum(row.count("1") for row in U_MAZE)
    other = skills.picture(make(tmp_path / "b", arrays=walks(1, 3, 2)))
    assert not other.axes[0].patches


def test_coverage_counts_cells_and_puts_them_where_they_are(tmp_path):
    visits, report = visited()
    arrays = walks(2, 4, 2) | {"visits": visits}
    figure = coverage.picture(make(tmp_path / "a", report=report, arrays=arrays))
    first, second, bar = figure.axes
    assert first.get_title() == "seed 3: 2 of 12 cells"
    assert second.get_title() == "seed 4: 1 of 12 cells"
    assert bar.get_ylabel() == "visits"
    [image] = first.images
    assert image.get_extent() == [0, 8, -1, 2]
    assert image.origin == "lower"
    seen_by = image.get_array()
    assert seen_by[0, 3] == 7  # x in [6, 8], y in [-1, 0]
    assert seen_by[2, 0] == 100
    assert np.ma.count(seen_by) == 2
    assert image.norm(1.0) == 0
    assert image.norm(10.0) == pytest.approx(image.norm(100.0) / 2)


def test_curve_is_the_mean_and_the_interval_is_that_of_the_mean(tmp_path):
    # of seeds 0 0 0 4 a resampled mean is Binomial(4, 1/4): 0 to 3 hold the middle 95%
    metrics = curve("return", (100, 0.0, 0.0, 4.0, 0.0), (300, 1.0, 1.0, 1.0, 1.0))
    figure = curves.picture([make(tmp_path / "a", metrics, seeds=4)])
    [panel] = figure.axes
    *each, mean = panel.lines
    np.testing.assert_array_equal(mean.get_xydata(), [[100, 1], [300, 1]])
    assert [line.get_ydata()[0] for line in each] == [0, 0, 4, 0]
    corners = panel.collections[0].get_paths()[0].vertices
    assert sorted(set(corners[corners[:, 0] == 100][:, 1])) == [0, 3]
    assert set(corners[corners[:, 0] == 300][:, 1]) == {1}
    assert panel.get_xlabel() == "environment steps per seed"


def test_what_is_unknown_is_left_out_of_means_and_intervals(tmp_path):
    metrics = curve("return", (1, None, None), (2, None, 5.0), (3, 2.0, 4.0))
    run = make(tmp_path / "a", metrics)
    steps, values = curves.read(run)["return"]
    np.testing.assert_array_equal(steps, [2, 3])
    low, high = curves.interval(values)
    np.testing.assert_array_equal(low, [np.nan, 2])
    np.testing.assert_array_equal(high, [np.nan, 4])
    np.testing.assert_array_equal(curves.picture([run]).axes[0].lines[-1].get_ydata(), [5, 3])


def test_one_seed_has_no_interval(tmp_path):
    run = make(tmp_path / "a", curve("return", (1, 3.0), (2, 5.0)), seeds=1)
    [panel] = curves.picture([run]).axes
    assert len(panel.lines) == 1
    assert np.isnan(curves.interval(curves.read(run)["return"][1])).all()


def test_long_curves_are_averaged_not_cut(tmp_path):
    rows = [(i, float(i), 0.0) for i in range(1, 1001)]
    steps, values = curves.read(make(tmp_path / "a", curve("return", *rows)))["return"]
    assert len(steps) == curves.MOST_POINTS
    np.testing.assert_allclose(steps[[0, -1]], [3, 998])  # means of five
    np.testing.assert_allclose(values[:, 0], steps)


def test_runs_differ_in_colour_and_style_and_keep_their_length(tmp_path):
    long = make(tmp_path / "a", curve("return", (1, 0.0, 1.0), (2, 0.0, 1.0), (3, 0.0, 1.0)))
    short = make(tmp_path / "b", curve("return", (1, 5.0)), seeds=1, method={"name": "rnd"})
    figure = curves.picture([long, short])
    [panel] = figure.axes
    assert [len(line.get_xdata()) for line in panel.lines] == [3, 1]
    one, other = panel.lines
    assert one.get_color() != other.get_color()
    assert one.get_linestyle() != other.get_linestyle()
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["cim-Ant-a", "rnd-Ant-b"]
    assert [line.get_color() for line in legend.get_lines()] == [one.get_color(), other.get_color()]


def test_panels_are_those_asked_for_or_those_one_looks_at_first(tmp_path):
    names = ("distance", "agent/kl", "bonus/b", "bonus/a", "return", "evaluation/coverage")
    run = make(tmp_path / "a", [line for name in names for line in curve(name, (1, 1.0, 2.0))])
    shown = [panel.get_ylabel() for panel in curves.picture([run]).axes]
    first = ["coverage (cells)", "return in training", "bonus/a", "bonus/b"]
    assert shown == [*first, "distance from the start (m)"]
    assert [p.get_ylabel() for p in curves.picture([run], ["agent/kl"]).axes] == ["agent/kl"]
    with pytest.raises(UserError, match="'loss'.*agent/kl"):
        curves.picture([run], ["loss"])


@pytest.mark.parametrize(
    ("steps", "text"),
    [(0, "0"), (500, "500"), (2500, "2.5k"), (20_000_000, "20M"), (1.25e9, "1.25G")],
)
def test_steps_are_short(steps, text):
    assert millions(steps) == text


def test_everything_is_written_whole_into_the_runs_figures(tmp_path):
    visits, report = visited()
    arrays = walks(2, 4, 2) | {"visits": visits}
    run = make(tmp_path / "a", curve("return", (1, 0.0, 1.0), (2, 3.0, 1.0)), report, arrays)
    bare = make(tmp_path / "b", curve("return", (1, 0.0, 1.0)))
    written = draw([run.folder, bare.folder])
    names = [f"{n}.{kind}" for n in ("curves", "skills", "coverage") for kind in ("png", "pdf")]
    assert [path.relative_to(run.folder / "figures").name for path in written] == names
    assert sorted(path.name for path in (run.folder / "figures").iterdir()) == sorted(names)
    for path in written:
        if path.suffix == ".pdf":
            content = path.read_bytes()
            assert content.startswith(b"%PDF")
            assert b"/Type3" not in content
        else:
            image = imread(path)[..., :3]
            assert min(image.shape[:2]) > 300
            assert 0.02 < (image < 0.9).any(axis=-1).mean() < 0.9


def test_what_a_run_lacks_is_said(tmp_path, capsys):
    young = make(tmp_path / "young")
    with pytest.raises(UserError, match="cim evaluate"):
        skills.draw_skills(young)
    with pytest.raises(UserError, match="no metrics"):
        curves.draw_curves([young])
    with pytest.raises(UserError, match="no metrics"):
        draw([young.folder])
    arrays = walks(2, 4, 2)
    blind = make(tmp_path / "blind", arrays={k: v for k, v in arrays.items() if k != "paths"})
    with pytest.raises(UserError, match=r"Ant has no position"):
        skills.draw_skills(blind)
    boundless = make(tmp_path / "boundless", arrays=arrays)
    with pytest.raises(UserError, match="no area"):
        coverage.draw_coverage(boundless)
    unjudged = make(tmp_path / "unjudged", arrays=arrays | {"visits": visited()[0]})
    with pytest.raises(UserError, match="cim evaluate"):
        coverage.draw_coverage(unjudged)
    assert not capsys.readouterr().err
    assert [path.stem for path in draw([boundless.folder])] == ["skills", "skills"]
    assert capsys.readouterr().err.count("not drawn") == 2


@pytest.fixture(scope="module")
def untrained():
    config = resolve(Config(env="PointWorld", seeds=2, seed=5, time_limit=9))
    mine, _ = fresh(config, config.make_env(1).spec)
    return config, mine.learners


@pytest.fixture
def folder(tmp_path, monkeypatch, untrained):
    monkeypatch.setattr(video, "load", lambda _, sim: untrained)
    return make(tmp_path / "run").folder


def test_the_episode_is_greedy_of_that_seed_and_skill(untrained):
    config, learners = untrained
    episode = video.play(config, learners, (0.6, -0.8), 1, None)
    np.testing.assert_array_equal(episode.skill, np.tile(np.float32([0.6, -0.8]), (9, 1)))
    player = jax.tree.map(lambda a: a[1], learners.player)
    obs, skill = jnp.asarray(episode.obs), jnp.asarray(episode.skill)
    x = seen(whiten(player.normaliser, obs), skill)
    np.testing.assert_allclose(episode.action, config.agent.greedy(player.agent, x), atol=1e-5)
    other = video.play(config, learners, (0.6, -0.8), 0, None)
    assert np.abs(other.action - episode.action).max() > 1e-3


def test_a_drawn_skill_is_one_of_evaluation(untrained):
    config, learners = untrained
    drawn = video.play(config, learners, None, 0, 4).skill
    assert drawn.shape[0] == 4
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-5)


def frames_of(path, width, height):
    """What ffmpeg says of a film, and its pictures."""
    ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
    wanted = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    read = subprocess.run([ffmpeg, "-i", str(path), *wanted], capture_output=True, check=True)
    frames = np.frombuffer(read.stdout, np.uint8).reshape(-1, height, width, 3).astype(int)
    return read.stderr.decode(), frames


def test_a_film_can_be_played_and_shows_every_step(folder):
    path = video.film(folder, (0.6, -0.8), seed=1, steps=5, size=(160, 120))
    assert path == folder / "figures" / "skill_0.6_-0.8_seed1.mp4"
    about, frames = frames_of(path, 160, 120)
    assert re.search("Video: h264.*yuv420p.*160x120", about)
    assert len(frames) == 6
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_point_is_shown_where_it_is_with_its_trail_behind():
    path = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    frames = [frame.astype(int) for frame in video._on_paper(path, (300, 300))]
    assert [frame.shape for frame in frames] == [(300, 300, 3)] * 3
    changed = [np.argwhere(np.abs(b - a).max(axis=-1) > 100) for a, b in pairwise(frames)]
    right, up = (where.max(axis=0) - where.min(axis=0) for where in changed)
    assert right[1] > 4 * right[0]
    assert up[0] > 4 * up[1]
    assert up[0] > 1.5 * right[1]
    black = [(b.max(axis=-1) < 60) & (a.min(axis=-1) > 200) for a, b in pairwise(frames)]
    there, above = (np.argwhere(where).mean(axis=0) for where in black)
    assert above[0] < there[0] - 50  # rows count from the top
    assert abs(above[1] - there[1]) < 3


def test_a_film_of_a_robot(tmp_path):
    config = resolve(Config(env="PointMaze"))
    actions = np.tile(np.float32([[1, 0]]), (40, 1))
    try:
        video.write(video._in_envpool(config, actions, 1, (128, 96)), tmp_path / "a.mp4")
    except RuntimeError as error:
        pytest.skip(f"no OpenGL here: {error}")
    _, frames = frames_of(tmp_path / "a.mp4", 128, 96)
    assert len(frames) == 41
    red, green, blue = np.moveaxis(frames, -1, 0)
    ball = (green > red + 30) & (green > blue + 30)
    x = [np.argwhere(picture)[:, 1].mean() for picture in ball]
    assert x[-1] > x[0] + 0.5


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"skill": (1.0,)}, "skill has 1 numbers: this run's have 2"),
        ({"skill": (1.0, float("nan"))}, "finite"),
        ({"seed": 2}, "seeds 0 to 1"),
        ({"seed": -1}, "seeds 0 to 1"),
        ({"steps": 0}, "steps = 0"),
        ({"size": (161, 120)}, "even"),
        ({"out": Path("a.gif")}, "mp4"),
    ],
)
def test_a_film_of_what_is_not_there_is_refused(folder, asked, match):
    with pytest.raises(UserError, match=match):
        video.film(folder, **asked)
    assert not list(folder.glob("figures/*"))


def test_skills_of_other_kinds_are_refused_in_their_words():
    for kind, skill, match in [
        (Skills("discrete", 3), (0.5, 0.5, 0.0), "one-hot"),
        (Skills("discrete", 3), (-1.0, 0.0, 1.0), "one-hot"),
        (Skills(), (1.0,), "takes none"),
    ]:
        with pytest.raises(UserError, match=match):
            video._check_skill(skill, kind)
