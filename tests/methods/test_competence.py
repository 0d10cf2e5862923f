"""What only one of the competence-based methods has, by hand."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_methods import SPEC, N, T, a_batch, case_of, small

from cim.agents.ppo import PPO
from cim.collect import Behaviour, Player, begin, collect
from cim.envs.toy import PointWorld
from cim.methods import METHODS
from cim.parts.guess import Guess
from cim.parts.running import Running
from cim.parts.skills import Skills, turning
from cim.types import Batch, UserError

INFERRING = ["diayn", "visr", "dads", "aps", "becl"]  # z shows in what is paid, step by step
TRAVELLING = ["lsd", "csd", "metra"]
STEPWISE = [*INFERRING, "cic", "moss", *TRAVELLING]


def k0():
    """A key is used once."""
    return jax.random.key(0)


def steps(obs, next_obs, skill, ended=None, elapsed=None):
    """[T, N] steps of which only this counts."""
    obs, next_obs, skill = (jnp.asarray(a, jnp.float32) for a in (obs, next_obs, skill))
    num, no = jnp.zeros(obs.shape[:2]), jnp.zeros(obs.shape[:2], bool)
    elapsed = num.astype(jnp.int32) if elapsed is None else jnp.asarray(elapsed, jnp.int32)
    terminated, truncated = (no, no) if ended is None else (jnp.asarray(e, bool) for e in ended)
    nothing = jnp.zeros((*num.shape, 1))
    return Batch(
        obs, nothing, num, nothing, next_obs, num, terminated, truncated, elapsed, skill
    )  # fmt: skip


def reaching(next_obs, skill):
    """Steps from zero, in one row."""
    next_obs = np.asarray(next_obs, np.float32)[None]
    return steps(np.zeros_like(next_obs), next_obs, np.asarray(skill, np.float32)[None])


def linear(mlp, weight, bias=None):
    """The net of one layer as this matrix, inputs down its rows."""
    [layer] = mlp.layers
    weight = jnp.asarray(weight, jnp.float32)
    bias = layer.bias if bias is None else jnp.asarray(bias, jnp.float32)
    weight = weight if layer.widens else weight.T
    assert weight.shape == layer.weight.shape
    return eqx.tree_at(lambda m: (m.layers[0].weight, m.layers[0].bias), mlp, (weight, bias))


def plain(name, **changes):
    """The method with nets of one layer, which sees all of a batch once."""
    return dataclasses.replace(METHODS[name](), layers=0, passes=1, minibatch=99, **changes)


def made(method, where, weight, bias=None, spec=SPEC):
    state = method.init(spec, k0())
    return eqx.tree_at(where, state, linear(where(state), weight, bias))


def paid(method, state, batch):
    return np.asarray(method.reward(state, batch, jax.random.key(7)))


def loss_of(method, state, batch):
    return float(method.update(state, batch, jax.random.key(7))[1]["loss"])


# DIAYN


def test_diayn_pays_what_is_known_of_a_skill_beyond_its_odds_beforehand():
    """Logits ln 15 and fifteen zeros: q = 15/30 = 1/2 for the first skill, 1/30 for others. Against
    p = 1/16: ln 8 = 2.0794 and ln(16/30) = -0.6286 (without p: -0.6931 and -3.4012).
    L = (ln 2 + ln 30) / 2 = 2.0472."""
    method = plain("diayn")
    logits = np.r_[np.log(15), np.zeros(15)]
    state = made(method, lambda s: s.guess.model.net, np.zeros((2, 16)), logits)
    batch = reaching([[3, 1], [0, 2]], np.eye(16)[[0, 5]])
    np.testing.assert_allclose(paid(method, state, batch), [[[2.0794, -0.6286]]], atol=1e-4)
    assert loss_of(method, state, batch) == pytest.approx(2.0472, abs=1e-4)


@pytest.mark.parametrize(("told_by", "expected"), [("next", 0.2877), ("current", -1.3863)])
def test_diayn_tells_by_the_state_that_it_is_told_to(told_by, expected):
    """Of two skills with logits (x, 0): at s' e^x = 2, so q = 2/3 and ln(4/3) = 0.2877; at s
    e^x = 1/7, so q = 1/8 and ln(1/4) = -1.3863."""
    method = plain("diayn", skill_dim=2, told_by=told_by)
    state = made(method, lambda s: s.guess.model.net, [[1, 0], [0, 0]])
    batch = steps([[[-np.log(7), 5]]], [[[np.log(2), 4]]], [[[1, 0]]])
    assert paid(method, state, batch)[0, 0, 0] == pytest.approx(expected, abs=1e-4)
    assert loss_of(method, state, batch) == pytest.approx(np.log(2) - expected, abs=1e-4)


@pytest.mark.parametrize(("spread", "expected"), [("unit", -1.0766), ("learned", -1.9941)])
def test_diayn_of_continuous_skills_is_a_gaussian_against_the_volume(spread, expected):
    """z = (1/2, -1/2), mean (0, 1/2), so squares 1/4 + 1; the box has p = 1/4.
    unit: -1.25/2 - ln 2 pi + ln 4 = -1.0766.  deviation 2: -1.25/8 - 2 ln 2 - ln 2 pi + ln 4."""
    method = plain("diayn", skill_kind="continuous", skill_dim=2, spread=spread)
    bias = [0, 0.5] + ([np.log(2)] * 2 if spread == "learned" else [])
    state = made(method, lambda s: s.guess.model.net, np.zeros((2, len(bias))), bias)
    batch = reaching([[1, 1]], [[0.5, -0.5]])
    assert paid(method, state, batch)[0, 0, 0] == pytest.approx(expected, abs=1e-4)


def test_a_gaussian_guess_is_never_surer_than_its_narrowest():
    """Deviations lie in e^[-5, 2]: at the mean log q = 5 - ln(2 pi)/2 = 4.0811, or -2.9189."""
    guess = Guess([1, 1], "continuous", "learned", k0())
    for log_std, expected in [(-50, 4.0811), (50, -2.9189)]:
        sure = eqx.tree_at(lambda g: g.net, guess, linear(guess.net, [[0, 0]], [0, log_std]))
        told = sure.log_q(jnp.zeros((1, 1)), jnp.ones((1, 1)))
        np.testing.assert_allclose(told, [expected], atol=1e-4)


# VIC


def vic(**changes):
    """Logits of three skills: x of the first state, x of the last, 0."""
    method = plain("vic", skill_dim=3, learning_rate=0.0, **changes)
    weight = [[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    return method, made(method, lambda s: s.guess.model.net, weight)


def test_vic_pays_at_both_kinds_of_end_and_nowhere_else():
    """From ln 2 to ln 3 the odds are 2 : 3 : 1. Times three skills: ln 1, ln 3/2, ln 1/2.
    L over the two ends: (ln 3 + ln 2) / 2 = 0.8959."""
    method, state = vic()
    obs, reached = np.full((2, 3, 2), 9.0), np.full((2, 3, 2), -9.0)
    obs[0, :, 0], reached[1, :, 0] = np.log(2), np.log(3)
    terminated, truncated = [[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]]
    skill = np.broadcast_to(np.eye(3)[[0, 1, 2]], (2, 3, 3))
    batch = steps(obs, reached, skill, (terminated, truncated), [[0] * 3, [1] * 3])
    expected = [[[0, 0, 0], [0, 0.4055, 0]]]
    np.testing.assert_allclose(paid(method, state, batch), expected, atol=1e-4)
    assert loss_of(method, state, batch) == pytest.approx(0.8959, abs=1e-4)
    swapped = eqx.tree_at(lambda b: b.skill, batch, batch.skill[:, ::-1])  # now the last is told
    got = paid(method, state, swapped)[0, 1]
    np.testing.assert_allclose(got, [np.log(0.5), np.log(1.5), 0], atol=1e-4)


def test_vic_remembers_over_two_borders_where_an_episode_began():
    """It begins in the second step of the first rollout, at ln 2, and ends in the third, at ln 3:
    skill 0 gets ln(2/6 . 3) = 0; had it begun anywhere else on its way, at 9, ln 3 = 1.0986 or so.
    The episode after it begins and ends in one step, at 0 and 0: 1/3 each, ln 1 = 0 for all; a
    start kept too long would pay it ln(2/4 . 3) = 0.4055."""
    method, state = vic()
    spec = dataclasses.replace(SPEC, num_envs=1)
    state = eqx.tree_at(lambda s: (s.begun, s.latest), state, (jnp.zeros((1, 2)),) * 2)
    assert method.init(spec, k0()).begun.shape == (1, 2)

    def rollout(before, after, elapsed, ended):
        obs, reached = (np.array([[[x, 5]], [[y, 5]]]) for x, y in (before, after))
        over = np.array(ended)[:, None]
        skill = np.broadcast_to(np.eye(3)[0], (2, 1, 3))
        return steps(obs, reached, skill, (over, np.zeros_like(over)), np.array(elapsed)[:, None])

    no, yes = False, True
    rollouts = [
        rollout((7, np.log(2)), (9, 9), [4, 0], [yes, no]),
        rollout((9, 9), (9, 9), [1, 2], [no, no]),
        rollout((9, 0), (np.log(3), 0), [3, 0], [yes, yes]),
    ]
    for batch in rollouts:
        state, _ = method.update(state, batch, k0())
    np.testing.assert_allclose(paid(method, state, rollouts[-1]).ravel(), [0, 0], atol=1e-4)
    once = method.update(method.init(spec, k0()), rollouts[-1], k0())[0]
    once = eqx.tree_at(lambda s: s.guess, once, state.guess)  # began it knows not where: at zero
    expected = [np.log(1 / 5 * 3), 0]
    np.testing.assert_allclose(paid(method, once, rollouts[-1]).ravel(), expected, atol=1e-4)


def test_vic_without_the_start_sees_the_end_alone():
    method = plain("vic", skill_dim=2, start=False)
    alone = dataclasses.replace(SPEC, num_envs=1)
    state = made(method, lambda s: s.guess.model.net, [[1, 0], [0, 0]], spec=alone)
    batch = steps([[[5, 6]]], [[[np.log(3), 8]]], [[[1, 0]]], ([[True]], [[False]]))
    assert paid(method, state, batch)[0, 0, 0] == pytest.approx(np.log(1.5), abs=1e-4)  # 3/4 . 2


# VISR


def test_visr_pays_the_cosine_whatever_the_lengths():
    """(3, 4) against (1, 0), (7, 0) and (0, -2): 3/5, 3/5, -4/5. L = 1 - 2/15 = 0.8667."""
    method = plain("visr")
    state = made(method, lambda s: s.phi.model, np.eye(2))
    batch = reaching([[3, 4]] * 3, [[1, 0], [7, 0], [0, -2]])
    np.testing.assert_allclose(paid(method, state, batch), [[[0.6, 0.6, -0.8]]], atol=1e-5)
    assert loss_of(method, state, batch) == pytest.approx(13 / 15, abs=1e-4)


@pytest.mark.parametrize("name", ["visr", "aps"])
def test_tasks_are_regressed_on_phi_at_unit_length(name):
    method = plain(name)
    state = made(method, lambda s: s.phi.model, np.eye(2))
    phi = method.regressors(state, reaching([[3, 4], [0, -2]], np.ones((2, 2))))
    np.testing.assert_allclose(phi, [[[0.6, 0.8], [0, -1]]], atol=1e-6)


# DADS


def dads(**changes):
    """One Gaussian over the first dimension, whose mean is 2 with the first skill and 0 else."""
    method = plain("dads", skill_kind="discrete", dims=(0,), experts=1, **changes)
    weight = np.zeros((1 + method.skill_dim, 2))
    weight[1, 1] = 2
    return method, made(method, lambda s: s.dynamics.model, weight)


def test_dads_pays_a_step_by_its_skill_against_all_skills():
    """Two skills. A step of 2 with the first: q is 1 against e^-2, ln 2 - ln(1 + e^-2) = 0.5662;
    with the second: ln 2 - ln(1 + e^2) = -1.4338. A step of 0 the other way round. Steps of 1 tell
    nothing."""
    method, state = dads(skill_dim=2)
    x, z = [2, 2, 0, 0, 1], np.eye(2)[[0, 1, 0, 1, 0]]
    batch = reaching(np.stack([x, [9] * 5], axis=-1), z)
    expected = [[[0.5662, -1.4338, -1.4338, 0.5662, 0]]]
    np.testing.assert_allclose(paid(method, state, batch), expected, atol=1e-4)


def test_dads_weighs_one_hot_skills_against_each_other_one():
    """Four skills, step 2: the first, 3 rivals at e^-2 each: ln 4 - ln(1 + 3 e^-2) = 1.0455; the
    third: its rivals are e^2, 1 and 1 times as likely: ln 4 - ln(1 + e^2 + 2) = -0.9545."""
    method, state = dads(skill_dim=4)
    batch = reaching([[2, 0], [2, 0]], np.eye(4)[[0, 2]])
    np.testing.assert_allclose(paid(method, state, batch), [[[1.0455, -0.9545]]], atol=1e-4)


def test_dads_mixes_its_experts_by_their_odds():
    """Odds 3 : 1, means 0 and 2 with the first skill, both 0 with the second. A step of 2:
    q = (3 e^-2 + 1) / 4 against e^-2: ln 2 - ln(1 + 4 / (3 + e^2)) = 0.3609."""
    method = plain("dads", skill_kind="discrete", skill_dim=2, dims=(0,), experts=2)
    weight = np.zeros((3, 4))
    weight[1, 3] = 2
    state = made(method, lambda s: s.dynamics.model, weight, [np.log(3), 0, 0, 0])
    got = paid(method, state, reaching([[2, 5]], [[1, 0]]))[0, 0, 0]
    assert got == pytest.approx(np.log(2) - np.log(1 + 4 / (3 + np.e**2)), abs=1e-4)


def test_dads_rivals_are_drawn_from_the_prior_and_cut_at_e_to_the_50():
    """The mean is 1000 z: rivals drawn are impossible where z is right, each 50 at most where z is
    wrong and they are less so."""
    method = plain("dads", skill_dim=1, dims=(0,), experts=1, rivals=6)
    state = made(method, lambda s: s.dynamics.model, [[0, 0], [0, 1000]])
    batch = reaching([[700, 0], [700, 0]], [[0.7], [-30]])
    right, wrong = paid(method, state, batch)[0, 0]
    assert right == pytest.approx(np.log(7), abs=1e-3)
    assert wrong == pytest.approx(np.log(7) - 50 - np.log(6), abs=1e-3)


def test_dads_foretells_steps_at_mean_zero_and_deviation_one():
    """Steps of 6 and 10 are -1 and 1 by their own mean and deviation: L = 1/2 + ln(2 pi) / 2. Then
    a step of 12, of mean 0 and 2 with the first skill, is 2: paid as above."""
    method, _ = dads(skill_dim=2, learning_rate=0.0)
    state = made(method, lambda s: s.dynamics.model, np.zeros((3, 2)))
    batch = reaching([[6, 0], [10, 1]], np.eye(2))
    assert loss_of(method, state, batch) == pytest.approx(1.4189, abs=1e-4)
    state, _ = method.update(state, batch, k0())
    moved = linear(state.dynamics.model, [[0, 0], [0, 2], [0, 0]])
    state = eqx.tree_at(lambda s: s.dynamics.model, state, moved)
    got = paid(method, state, reaching([[12, 5]], [[1, 0]]))[0, 0, 0]
    assert got == pytest.approx(0.5662, abs=1e-4)


# APS


@pytest.mark.parametrize(
    ("changes", "rare"),
    [
        ({"normaliser": "none"}, [1.6094, 1.7918, 1.6094]),
        ({}, [0.6539, 0.7673, 0.6539]),
        ({"clip": 0.5}, [0.3528, 0.5031, 0.3528]),
        ({"include_self": True, "k": 2}, [0.6539, 0.7673, 0.6539]),
    ],
)
def test_aps_pays_for_rare_features_and_for_going_along_z(changes, rare):
    """(3, 4), (6, 8), (3, 0) lie 4, 5, 4 from their nearest. Bare: ln 5, ln 6, ln 5. Over the mean
    13/3: ln(1 + 12/13), ln(1 + 15/13). A clip of 1/2 leaves ln(1 + 11/26), ln(1 + 17/26). A point
    that counts itself, at 0, halves both the distances and n. Along z = (2, 0): 3/5, 3/5, 1."""
    method = plain("aps", learning_rate=0.0, **({"k": 1} | changes))
    state = made(method, lambda s: s.phi.model, np.eye(2))
    batch = reaching([[3, 4], [6, 8], [3, 0]], [[2, 0]] * 3)
    state, metrics = method.update(state, batch, k0())  # which only measures the distances
    expected = [[rare], [[0.6, 0.6, 1]]]
    np.testing.assert_allclose(paid(method, state, batch), expected, atol=1e-4)
    assert metrics["loss"] == pytest.approx(-2.2 / 3, abs=1e-4)
    assert list(method.streams.items()) == [("entropy", 1.0), ("alignment", 1.0)]


@pytest.mark.parametrize(
    ("name", "normaliser"), [("aps", "mean"), ("cic", "variance"), ("moss", "score")]
)
def test_distances_that_are_paid_count_once_in_their_scale(name, normaliser):
    """As in the releases a batch is in the statistics before it is paid for, and once."""
    method = small(name, normaliser=normaliser, learning_rate=0.0, k=2)
    batches = [a_batch(method.skills, jax.random.key(i)) for i in (1, 2)]
    state, case = method.init(SPEC, k0()), case_of(name)
    for batch in batches:
        state, _ = method.update(state, batch, k0())
    first, second = (jax.tree.map(np.asarray, batch) for batch in batches)
    d = np.stack([case.gaps(method, state, batch) for batch in (first, second)])
    assert state.distances.count == d.size
    np.testing.assert_allclose(state.distances.mean, d.mean(), rtol=1e-4)
    np.testing.assert_allclose(state.distances.var, d.var(), rtol=1e-3)
    expected = case.oracle(method, state, second)
    np.testing.assert_allclose(paid(method, state, batches[1]), expected, rtol=1e-3, atol=1e-5)


# CIC


def contrastive(method):
    """g is the identity, and a step's key g(s') - g(s)."""
    state = method.init(SPEC, k0())
    net = state.net.model
    turned = (linear(net.state, np.eye(2)), linear(net.pair, np.r_[-np.eye(2), np.eye(2)]))
    return eqx.tree_at(lambda s: (s.net.model.state, s.net.model.pair), state, turned)


@pytest.mark.parametrize("name", ["cic", "moss"])
@pytest.mark.parametrize(("released", "expected"), [(False, 0.4100), (True, -1.7958)])
def test_cic_tells_each_step_by_its_skill_among_the_others(name, released, expected):
    """Steps along (1, 0) and (0, 1), skills (3, 0) and (1, 1): cosines 1, 0 and 0.7071 twice, over
    T = 1/2: 2, 0 and 1.4142 twice. l = ln(e^2 + 1) - 2 = 0.1269 and ln 2 = 0.6931. Released, e^2
    is taken off both sums: ln 1 - 2 = -2 and ln(8.2265 - 7.3891) - 1.4142 = -1.5916."""
    method = plain(name, features=2, released=released)
    batch = steps([[[5, 0], [0, 3]]], [[[7, 0], [0, 4]]], [[[3, 0], [1, 1]]])
    assert loss_of(method, contrastive(method), batch) == pytest.approx(expected, abs=1e-4)


def test_cic_compares_with_the_projected_skill():
    """g_z swaps the dimensions: where z = (0, 1) goes along (1, 0), cosines are 1 and 0."""
    method = plain("cic", features=2, project=True)
    state = contrastive(method)
    swap = linear(state.net.model.project, [[0, 1], [1, 0]])
    state = eqx.tree_at(lambda s: s.net.model.project, state, swap)
    batch = steps(np.zeros((1, 2, 2)), [[[1, 0], [0, 1]]], [[[0, 2], [3, 0]]])
    expected = np.log(1 + np.exp(-2))
    assert loss_of(method, state, batch) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [np.log(5), np.log(6), np.log(5)]),
        ({"normaliser": "variance"}, [np.log(1 + 18), np.log(1 + 22.5), np.log(1 + 18)]),
        ({"k": 2, "include_self": True}, [np.log(3), np.log(3.5), np.log(3)]),
        ({"clip": 4.5}, [0, np.log(1.5), 0]),
    ],
)
def test_cic_pays_for_rare_features_alone(changes, expected):
    """The points of APS, 4, 5, 4 from their nearest: variance 2/9."""
    method = plain("cic", features=2, learning_rate=0.0, **({"k": 1} | changes))
    batch = reaching([[3, 4], [6, 8], [3, 0]], [[1, 0], [0, 1], [-1, 0]])
    state, _ = method.update(contrastive(method), batch, k0())  # which only measures the distances
    np.testing.assert_allclose(paid(method, state, batch), [[expected]], atol=1e-4)
    turned = eqx.tree_at(lambda b: b.skill, batch, -3 * batch.skill)
    np.testing.assert_allclose(paid(method, state, turned), [[expected]], atol=1e-4)


# MOSS


def test_moss_seeks_surprise_for_half_the_episode_and_then_avoids_it():
    """Horizon 9, so m = 1 from step 4 on. States left 0, 2, 9 and reached 1, 5, 10 on a line: each
    is 1 from the nearest reached, its own or not: ln 2."""
    method = plain("moss", features=2, k=1)
    place = lambda xs: np.array([[[x, 0] for x in xs]])  # noqa: E731
    batch = steps(place([0, 2, 9]), place([1, 5, 10]), np.ones((1, 3, 2)), elapsed=[[3, 4, 8]])
    got = paid(method, contrastive(method), batch)
    np.testing.assert_allclose(got, [[[np.log(2), -np.log(2), -np.log(2)]]], atol=1e-4)


def test_moss_scales_distances_by_how_far_they_lie_above_their_mean():
    """States left 0, 2, 9, reached 1, 5, 16: nearest 1, 1, 4, mean 2, variance 2: scores -1/2, -1/2
    and 1, those below zero cut: ln 1, ln 1, ln 2; all late, so negated."""
    method = plain("moss", features=2, k=1, normaliser="score", learning_rate=0.0)
    place = lambda xs: np.array([[[x, 0] for x in xs]])  # noqa: E731
    batch = steps(place([0, 2, 9]), place([1, 5, 16]), np.ones((1, 3, 2)), elapsed=[[5] * 3])
    state, _ = method.update(contrastive(method), batch, k0())  # which only measures the distances
    got = paid(method, state, batch)
    np.testing.assert_allclose(got, [[[0, 0, -np.log(2)]]], atol=1e-4)


@pytest.mark.parametrize("method", [METHODS["moss"](), METHODS["moss"].preset("paper")])
def test_a_policy_of_moss_can_tell_which_half_it_is_in(method):
    """By the sum of z, which is all that it is shown of the time: what is seen early and what is
    seen late lie apart."""
    z, turn = method.skills.sample(k0(), 500), turning(method.switch, 9)
    early, late = (
        method.skills.shown(z, jnp.full(500, t, jnp.int32), 9).sum(axis=1) for t in (turn - 1, turn)
    )
    assert early.min() > late.max()


def test_skills_are_negated_from_their_share_of_the_horizon_on():
    elapsed, z = jnp.arange(9, dtype=jnp.int32), jnp.full((9, 2), 0.25)
    halves = Skills("box", 2, switch=0.5).shown(z, elapsed, 9)
    np.testing.assert_array_equal(halves[:, 0] / 0.25, [1] * 4 + [-1] * 5)
    thirds = Skills("box", 2, switch=2 / 3).shown(z, elapsed, 9)
    np.testing.assert_array_equal(thirds[:, 0] / 0.25, [1] * 6 + [-1] * 3)
    np.testing.assert_array_equal(Skills("box", 2).shown(z, elapsed, 9), z)


def test_a_share_of_the_horizon_is_a_whole_step_where_it_is_one():
    assert [turning(k / 100, 100) for k in range(1, 100)] == [*range(1, 100)]
    assert (turning(0.5, 9), turning(2 / 3, 1000)) == (4, 666)


def test_skills_are_due_with_the_episode_or_every_so_many_steps():
    elapsed = jnp.arange(7, dtype=jnp.int32)
    np.testing.assert_array_equal(Skills("box", 2).redrawn(elapsed), [1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(Skills("box", 2, 3).redrawn(elapsed), [1, 0, 0, 1, 0, 0, 1])


@pytest.mark.parametrize("greedy", [False, True])
def test_what_a_policy_of_moss_sees_turns_in_the_middle_and_is_drawn_when_due(greedy):
    """Episodes of 9, z kept for 3, negated from step 4 on: the signs within a draw are + + +,
    + - - and - - -, and the next episode starts with +."""
    method = small("moss", skill_period=3, skill_prior="positive")
    env, seeds = PointWorld(4, horizon=9), np.arange(4).reshape(1, 4)
    behaviour = Behaviour(PPO(width=8), method.skills, greedy)
    agent = jax.vmap(lambda k: behaviour.agent.init(env.spec, 2, 1, k))(jax.random.split(k0(), 1))
    player = Player(agent, jax.vmap(lambda _: Running((2,)))(jnp.zeros(1)))
    cursor, keys = begin(env, behaviour, seeds), jax.random.split(jax.random.key(1), 1)
    _, batch = collect(env, behaviour, player, cursor, keys, 18)
    z, elapsed = np.asarray(batch.skill[0]), np.asarray(batch.elapsed[0])
    np.testing.assert_array_equal(elapsed[:, 0], [*range(9), *range(9)])
    sign = np.where(elapsed < 4, 1, -1)[..., None]
    assert (z * sign > 0).all()
    drawn = (z * sign).reshape(6, 3, 4, 2)  # one draw, its steps, worlds, dimensions
    np.testing.assert_array_equal(drawn, np.repeat(drawn[:, :1], 3, axis=1))
    assert len(np.unique(drawn[:, 0].reshape(-1, 2), axis=0)) == 24
    long = np.linalg.norm(drawn, axis=-1)
    assert np.allclose(long, 1) if greedy else (abs(long - 1) > 1e-3).all()


# BeCL


def becl(**changes):
    method = plain("becl", features=2, **changes)
    return method, made(method, lambda s: s.embed.model, np.eye(2))


def test_becl_pays_for_standing_with_ones_kin_and_a_loner_nothing():
    """T = 1/2. The first, towards (1, 0), has its kin at cosine 0 and a stranger at -1:
    1 / (1 + e^-2) = 0.8808. Its kin has both others at cosine 0: 1/2. The stranger is alone: 0.
    L = (ln(1 + e^-2) + ln 2) / 2 = 0.4100, over the two."""
    method, state = becl(skill_dim=3)
    batch = reaching([[4, 0], [0, 3], [-2, 0]], np.eye(3)[[1, 1, 2]])
    np.testing.assert_allclose(paid(method, state, batch), [[[0.8808, 0.5, 0]]], atol=1e-4)
    assert loss_of(method, state, batch) == pytest.approx(0.41, abs=1e-4)


def test_becl_counts_further_kin_among_the_rivals():
    """Four that look alike and have one skill: each kin is one of three others, 1/3."""
    method, state = becl(skill_kind="continuous", skill_dim=1)
    batch = reaching([[2, 0]] * 4, [[0.5]] * 4)
    np.testing.assert_allclose(paid(method, state, batch), np.full((1, 1, 4), 1 / 3), atol=1e-5)


def test_becl_contrasts_every_row_of_a_batch_with_equally_many():
    """Twice four rows that look alike and have one skill: 1/3 each. Where all eight meet, 1/7."""
    method, state = becl(skill_kind="continuous", skill_dim=1)
    method = dataclasses.replace(method, minibatch=4)
    alike = reaching([[2, 0]] * 8, [[0.5]] * 8)
    batch = jax.tree.map(lambda a: a.reshape(2, 4, *a.shape[2:]), alike)
    np.testing.assert_allclose(paid(method, state, batch), np.full((1, 2, 4), 1 / 3), atol=1e-5)


def test_becl_without_any_kin_learns_nothing_and_pays_nothing():
    method, state = becl(skill_dim=4)
    batch = reaching([[4, 0], [0, 3], [-2, 0]], np.eye(4)[:3])
    assert (paid(method, state, batch) == 0).all()
    after, metrics = method.update(state, batch, k0())
    np.testing.assert_array_equal(
        after.embed.model.layers[0].weight, state.embed.model.layers[0].weight
    )
    assert metrics["loss"] == 0


# Objectives


def told(name, method, key, rows=(16, 4)):
    """Steps that a skill shows in: they lead where it points, from zero or, where steps are what is
    told by, from anywhere."""
    k_skill, k_obs = jax.random.split(key)
    z = method.skills.sample(k_skill, rows[0] * rows[1])
    way = z @ jnp.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]])[: z.shape[1]]
    anywhere = name in (*TRAVELLING, "dads")
    obs = jax.random.normal(k_obs, way.shape) if anywhere else jnp.zeros_like(way)
    shape = lambda a: a.reshape(*rows, -1)  # noqa: E731
    over = jnp.ones(rows, bool)
    return steps(shape(obs), shape(obs + way), shape(z), (over, ~over))


def practised(name, **changes):
    """The method after 120 passes over steps that show their skill, and these."""
    sizes = {"skill_dim": 4} if METHODS[name]().skill_kind == "discrete" else {"skill_dim": 2}
    sizes |= {"width": 32, "learning_rate": 1e-2, "minibatch": 64, "passes": 120}
    method = small(name, **(sizes | changes))
    batch = told(name, method, jax.random.key(1))
    spec = dataclasses.replace(SPEC, num_envs=4)
    state, _ = jax.jit(method.update)(method.init(spec, k0()), batch, jax.random.key(2))
    return method, state, batch


def shuffled(batch):
    """The same steps, other skills."""
    return eqx.tree_at(lambda b: b.skill, batch, batch.skill[jnp.arange(16) - 5])


# by how much the mean reward of steps that show their skill exceeds that of steps that do not
MARGINS = {"vic": 1, "diayn": 1, "visr": 0.5, "dads": 0.5, "aps": 0.5, "becl": 0.02, "lsd": 0.5,
           "csd": 0.2, "metra": 0.5}  # fmt: skip


@pytest.mark.parametrize("name", MARGINS)
def test_steps_that_show_their_skill_are_paid_better_than_others(name):
    method, state, _ = practised(name)
    fresh = told(name, method, jax.random.key(5))  # not those that were practised on
    own, others = (paid(method, state, b)[-1].mean() for b in (fresh, shuffled(fresh)))
    assert own > others + MARGINS[name]
    assert own > 0


@pytest.mark.parametrize("name", ["cic", "moss"])
def test_features_learn_what_tells_the_skill(name):
    """Of 64 rows a net that knows nothing is at ln 64; the best, whose cosine is the skills', at
    about ln 64 - 0.9. On other skills it is worse than knowing nothing."""
    method, state, batch = practised(name, skill_prior="box")
    losses = [loss_of(dataclasses.replace(method, passes=1), state, b)
              for b in (batch, shuffled(batch))]  # fmt: skip
    assert losses[0] < np.log(64) - 0.5
    assert losses[1] > losses[0] + 1


# Order and scale


@pytest.mark.parametrize(
    ("name", "first"),
    [("dads", True), ("aps", True), ("cic", True), ("moss", True), ("becl", True), ("metra", True),
     ("lsd", False)],
)  # fmt: skip
def test_a_batch_is_paid_after_the_lesson_on_it_or_before_as_in_the_release(name, first):
    assert METHODS[name].fits_first is first


@pytest.mark.parametrize("name", ["visr", "aps", "metra"])
def test_the_port_takes_of_skills_from_the_box_the_direction_alone(name):
    """As those papers' priors are spheres: a skill twice as long asks for nothing else, in what is
    paid and in what is learned."""
    method = METHODS[name].preset("port", width=8, minibatch=15)
    state, batch = method.init(SPEC, k0()), a_batch(method.skills, jax.random.key(1))
    longer = eqx.tree_at(lambda b: b.skill, batch, 2 * batch.skill)
    got = [method.reward(state, b, jax.random.key(2))[-1] for b in (batch, longer)]
    np.testing.assert_allclose(*got, rtol=1e-5)
    after = [method.update(state, b, jax.random.key(3))[0] for b in (batch, longer)]
    first = [jax.tree.leaves(s)[0] for s in after]  # the first weights
    np.testing.assert_allclose(*first, atol=1e-5)
    assert not np.allclose(first[0], jax.tree.leaves(state)[0], atol=1e-4)


def test_a_preset_can_be_changed_in_what_it_sets():
    changed = METHODS["visr"].preset("port", width=8)
    assert (changed.width, changed.passes) == (8, 10)


# States


@pytest.mark.parametrize("name", STEPWISE)
def test_a_sample_of_the_replay_is_one_step_of_learning_and_the_state_stays_as_it_is(name):
    """Eleven steps in one row, other than the rollouts that the sizes speak of."""
    method = small(name, minibatch=4)
    state = method.init(SPEC, k0())
    one, many = (dataclasses.replace(method, passes=passes) for passes in (1, 3))
    batch = jax.tree.map(lambda a: a.reshape(1, 15, *a.shape[2:])[:, :11],
                         a_batch(method.skills, jax.random.key(1)))  # fmt: skip
    after, again = (m.update(state, batch, jax.random.key(2))[0] for m in (one, many))
    sizes = [[(a.shape, a.dtype) for a in jax.tree.leaves(s)] for s in (state, after)]
    assert sizes[0] == sizes[1]
    for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    pairs = zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True)
    assert {int(b) for a, b in pairs if a.dtype == jnp.int32 and a != b} == {1}  # Adam's count
    assert method.reward(after, batch, jax.random.key(3)).shape == (len(method.streams), 1, 11)


# Refusals


@pytest.mark.parametrize("name", ["visr", "aps", "moss"])
def test_one_hot_skills_are_refused_where_there_is_no_form_for_them(name):
    with pytest.raises(UserError, match="skill-kind = 'discrete'.*continuous.*diayn") as caught:
        METHODS[name](skill_kind="discrete")
    others = str(caught.value).split("have: ")[1].split(", ")
    assert name not in others
    for other in others:
        assert METHODS[other](skill_kind="discrete").skills.kind == "discrete"


@pytest.mark.parametrize("name", ["vic", *STEPWISE])
@pytest.mark.parametrize("minibatch", [0, 16])
def test_minibatches_larger_than_a_batch_are_refused(name, minibatch):
    with pytest.raises(UserError, match=f"minibatch = {minibatch}: 1 to 15"):
        small(name, minibatch=minibatch).check(SPEC, T * N, T)


@pytest.mark.parametrize("name", ["vic", *STEPWISE])
def test_lessons_without_a_pass_are_refused(name):
    with pytest.raises(UserError, match="passes = 0: at least 1"):
        small(name, passes=0).check(SPEC, T * N, T)


@pytest.mark.parametrize("name", ["vic", *STEPWISE])
def test_skills_that_cannot_be_told_apart_are_refused(name):
    with pytest.raises(UserError, match="skill-dim = 0 is too small"):
        small(name, skill_dim=0).check(SPEC, T * N, T)
    if METHODS[name].skill_kinds == "both":
        one = small(name, skill_kind="discrete", skill_dim=1)
        with pytest.raises(UserError, match="skill-dim = 1 is too small for discrete"):
            one.check(SPEC, T * N, T)


@pytest.mark.parametrize(
    ("name", "changes", "word"),
    [
        ("dads", {"dims": (0, 2)}, r"dims = \(0, 2\).*0 to 1"),
        ("dads", {"rivals": 0}, "rivals = 0: at least 1"),
        ("dads", {"experts": 0}, "experts = 0: at least 1"),
        ("aps", {"k": 15}, "k = 15 .*1 to 14"),
        ("cic", {"k": 3, "crowd": 3}, "k = 3 .*1 to 2"),
        ("moss", {"k": 0}, "k = 0 neighbours: at least 1"),
        ("moss", {"switch": 1.0}, "switch = 1.0: between 0 and 1"),
        ("moss", {"switch": 0.0}, "switch = 0.0: between 0 and 1"),
    ],
)
def test_sizes_that_cannot_work_are_refused(name, changes, word):
    with pytest.raises(UserError, match=word):
        small(name, **changes).check(SPEC, T * N, T)


def test_vic_refuses_a_replay_and_says_what_to_take():
    with pytest.raises(UserError, match="agent ppo, or method diayn"):
        small("vic").check(SPEC, 15, 1)
    small("vic").check(SPEC, T * N, T)
