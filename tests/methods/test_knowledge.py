"""The methods that learn what to expect: known values, what learns and what does not, refusals."""

import dataclasses
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import entropy, kstest, norm
from test_methods import OBS, SPEC, N, T, a_batch, case_of, small

from cim.methods import METHODS
from cim.methods.agac import difference
from cim.methods.disagreement import told
from cim.methods.rnd import RND, error
from cim.types import UserError
from methods.plain import numpy_mlp
from methods.worlds import VISITED, around, leaves, one_step, same, says

KNOWLEDGE = ["icm", "rnd", "disagreement", "made", "agac"]
LEARNERS = [(n, changes) for n in KNOWLEDGE for changes in getattr(case_of(n), "VARIANTS", [{}])]
ALL = {"passes": 1, "minibatch": T * N}  # of the rows in one step: the loss is the first one's


def started(name, **changes):
    method = small(name, **changes)
    return method, jax.jit(lambda key: method.init(SPEC, key))(jax.random.key(0))


def batch_of(seed=1):
    return a_batch(small("rnd").skills, jax.random.key(seed))


def pays(method, state, batch):
    return np.asarray(jax.jit(method.reward)(state, batch, jax.random.key(3)))[0]


def learns(method, state, batch, seed=2):
    return jax.jit(method.update)(state, batch, jax.random.key(seed))


@pytest.mark.parametrize(("name", "changes"), LEARNERS, ids=str)
def test_reward_is_its_equation_after_two_rollouts_too(name, changes):
    method, state = started(name, **changes)
    for seed in (4, 5):
        state, _ = learns(method, state, batch_of(seed), seed)
    batch = batch_of()
    expected = case_of(name).oracle(method, state, jax.tree.map(np.asarray, batch))
    np.testing.assert_allclose(pays(method, state, batch)[None], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_what_was_practised_pays_less_than_before_and_than_what_was_not(name):
    method, state = started(name, width=16, learning_rate=1e-2)
    seen, unseen = around(VISITED), around(-VISITED)

    def again(state, number):
        return method.update(state, seen, jax.random.fold_in(jax.random.key(2), number))

    after, _ = jax.jit(lambda s: jax.lax.scan(again, s, jnp.arange(200)))(state)
    before, now = pays(method, state, seen), pays(method, after, seen)
    assert now.mean() < 0.5 * before.mean()
    assert now.mean() < 0.5 * pays(method, after, unseen).mean()


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_rows_without_time_teach_what_they_teach_with_it(name):
    method, state = started(name)
    batch = batch_of()
    timed, flat = learns(method, state, batch), learns(method, state, batch.flat)
    assert not same(timed[0], state)
    assert same(timed, flat)


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_a_sample_of_the_replay_is_one_minibatch_and_one_step(name):
    method, state = started(name, passes=7)
    after, metrics = learns(method, state, one_step(batch_of()))
    counts = {int(x) for x in leaves(after) if jnp.isdtype(x.dtype, "integral")}
    assert counts == {1}  # Adam's
    whole, expected = learns(small(name, **ALL), state, batch_of())
    np.testing.assert_allclose(*[sorted(m.values()) for m in (metrics, expected)], rtol=1e-5)


# ICM: s' = (4, 6), foretold (1, 2): a miss of (3, 4), norm 5. a = 0.5, told 0.


def icm_of_known_nets(**changes):
    method, state = started("icm", **ALL, **changes)
    nets = state.dynamics.model
    state = eqx.tree_at(
        lambda s: (s.dynamics.model.forward, s.dynamics.model.inverse),
        state,
        (says(nets.forward, [1.0, 2.0]), says(nets.inverse, [0.0])),
    )
    batch = batch_of()
    batch = replace(
        batch,
        next_obs=jnp.broadcast_to(jnp.array([4.0, 6.0]), (T, N, OBS)),
        action=jnp.full((T, N, 1), 0.5),
    )
    return method, state, batch


@pytest.mark.parametrize(
    ("changes", "r", "loss"),
    [
        ({"form": "norms"}, np.log(6), 5 + 0.5),
        ({"form": "squares"}, 12.5, 0.8 * 0.25 + 0.2 * 12.5),
        ({"form": "squares", "beta": 0.5}, 12.5, 0.5 * 0.25 + 0.5 * 12.5),
    ],
    ids=str,
)
def test_icm_of_known_nets(changes, r, loss):
    method, state, batch = icm_of_known_nets(**changes)
    np.testing.assert_allclose(pays(method, state, batch), r, rtol=1e-5)
    np.testing.assert_allclose(learns(method, state, batch)[1]["loss"], loss, rtol=1e-5)


def test_icm_takes_an_action_for_what_worlds_make_of_it():
    """Inverse tanh(2) against 7, which is 1."""
    method, state, batch = icm_of_known_nets()
    inverse = says(state.dynamics.model.inverse, [2.0])
    state = eqx.tree_at(lambda s: s.dynamics.model.inverse, state, inverse)
    for action in (7.0, 1.0):
        acted = replace(batch, action=jnp.full((T, N, 1), action))
        loss = learns(method, state, acted)[1]["loss"]
        np.testing.assert_allclose(loss, 5 + 1 - np.tanh(2), rtol=1e-5)


def test_icm_tells_discrete_actions_by_cross_entropy():
    """Odds 1 : 3 of the action taken and the other: -log(1/4), in either form."""
    for form, forward in [("norms", 5), ("squares", 12.5)]:
        method = small("icm", form=form, beta=0.5, **ALL)
        state = method.init(replace(SPEC, discrete=True, action_dim=2), jax.random.key(0))
        nets = state.dynamics.model
        known = (says(nets.forward, [1.0, 2.0]), says(nets.inverse, [0.0, np.log(3)]))
        get = lambda s: (s.dynamics.model.forward, s.dynamics.model.inverse)  # noqa: E731
        state = eqx.tree_at(get, state, known)
        batch = replace(
            batch_of(),
            next_obs=jnp.broadcast_to(jnp.array([4.0, 6.0]), (T, N, OBS)),
            action=jnp.broadcast_to(jnp.array([1.0, 0.0]), (T, N, 2)),
        )
        expected = forward + np.log(4) if form == "norms" else 0.5 * (forward + np.log(4))
        np.testing.assert_allclose(learns(method, state, batch)[1]["loss"], expected, rtol=1e-5)


def test_icm_on_states_is_not_paid_for_its_inverse_model():
    method, state = started("icm")
    other = says(state.dynamics.model.inverse, [3.0])
    told_otherwise = eqx.tree_at(lambda s: s.dynamics.model.inverse, state, other)
    batch = batch_of()
    np.testing.assert_array_equal(pays(method, state, batch), pays(method, told_otherwise, batch))


@pytest.mark.parametrize("form", ["norms", "squares"])
def test_both_losses_of_icm_train_its_encoder_and_no_gradient_is_stopped(form):
    """Adam's first step is against the sign of the gradient of the loss written out."""
    method, state = started("icm", form=form, encoder=True, beta=0.5, **ALL)
    batch, old = batch_of(), state.dynamics.model
    action = jnp.clip(batch.action, -1, 1)

    def loss(nets):
        now, then = nets.encoder(batch.obs), nets.encoder(batch.next_obs)
        told = nets.forward(jnp.concatenate([now, action], -1))
        meant = jnp.tanh(nets.inverse(jnp.concatenate([now, then], -1)))
        missed = [jnp.linalg.norm(x, axis=-1) for x in (then - told, action - meant)]
        if form == "norms":
            return missed[0].mean() + missed[1].mean()
        return 0.5 * (missed[0] ** 2).mean() / 2 + 0.5 * (missed[1] ** 2).mean()

    new, metrics = learns(method, state, batch)
    np.testing.assert_allclose(metrics["loss"], loss(old), rtol=1e-5)
    for a, b, g in zip(*map(leaves, (new.dynamics.model, old, jax.grad(loss)(old))), strict=True):
        clear = np.abs(g) > 1e-4
        assert clear.any()
        np.testing.assert_array_equal(np.sign(a - b)[clear], -np.sign(g)[clear])


# RND: f_hat - f = (1, 2, 2, 3), of mean square (1 + 4 + 4 + 9) / 4 = 4.5


def rnd_of_known_nets(**changes):
    method, state = started("rnd", **ALL, **changes)
    known = (says(state.target, [1.0, 0, 0, 1]), says(state.predictor.model, [2.0, 2, 2, 4]))
    return method, eqx.tree_at(lambda s: (s.target, s.predictor.model), state, known)


def test_rnd_of_known_nets():
    method, state = rnd_of_known_nets()
    np.testing.assert_allclose(pays(method, state, batch_of()), 4.5, rtol=1e-6)
    np.testing.assert_allclose(learns(method, state, batch_of())[1]["loss"], 4.5, rtol=1e-6)


def test_rnd_moves_the_predictor_only():
    method, state = started("rnd")
    after, _ = learns(method, state, batch_of())
    assert same(after.target, state.target)
    assert not same(after.predictor.model, state.predictor.model)
    miss = lambda f: error(state.predictor.model, f, batch_of().obs).mean()  # noqa: E731
    assert all((x == 0).all() for x in leaves(jax.grad(miss)(state.target)))


@pytest.mark.parametrize(("pays_for", "other"), [("next", "obs"), ("current", "next_obs")])
def test_rnd_sees_one_state_only_and_that_cut_at_five(pays_for, other):
    method, state = started("rnd", pays_for=pays_for)
    batch = batch_of()
    field = {"next": "next_obs", "current": "obs"}[pays_for]
    np.testing.assert_array_equal(
        pays(method, state, batch), pays(method, state, replace(batch, **{other: 2 * batch.obs}))
    )
    at, beyond = (
        pays(method, state, replace(batch, **{field: jnp.sign(batch.obs) * x})) for x in (5.0, 9.0)
    )
    np.testing.assert_array_equal(at, beyond)
    assert (at != pays(method, state, replace(batch, **{field: 4 * jnp.sign(batch.obs)}))).all()


def test_rnd_is_scaled_by_the_deviation_of_all_errors_before_they_were_learned_from():
    """Those that are paid among them, as URLB's."""
    method, state = started("rnd", scaled=True)
    plain, errors = replace(method, scaled=False), []
    for seed in (4, 5):
        errors.append(pays(plain, state, batch_of(seed)))
        state, _ = learns(method, state, batch_of(seed), seed)
    errors.append(pays(plain, state, batch_of()))
    np.testing.assert_allclose(
        pays(method, state, batch_of()),
        pays(plain, state, batch_of()) / np.std(errors),
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    ("preset", "target", "predictor"),
    [
        ("paper", [2, 512, 512], [2, 512, 512, 512, 512]),
        ("urlb", [2, 1024, 1024, 512], [2, 1024, 1024, 512]),
        ("port", [2, 1024, 128], [2, 1024, 1024, 128]),
    ],
)
def test_rnd_nets_are_as_deep_as_their_preset_says(preset, target, predictor):
    state = jax.eval_shape(lambda key: RND.preset(preset).init(SPEC, key), jax.random.key(0))
    nets = {"target": (state.target, target), "predictor": (state.predictor.model, predictor)}
    for mlp, sizes in nets.values():
        assert [OBS, *[layer.bias.shape[0] for layer in mlp.layers]] == sizes


# Disagreement: two members say (1, 5) and (3, 5): variances 2 (not 1) and 0, of mean 1


def disagreement_of_known_nets(**changes):
    method, state = started("disagreement", members=2, kept=1.0, **ALL, **changes)
    known = says(state.models.model, [[1.0, 5.0], [3.0, 5.0]])
    state = eqx.tree_at(lambda s: s.models.model, state, known)
    return method, state, replace(batch_of(), next_obs=jnp.ones((T, N, OBS)))


@pytest.mark.parametrize(
    ("form", "loss"),
    [
        ("squares", ((0 + 16) / 2 + (4 + 16) / 2) / 2),  # s' = (1, 1): missed by (0, 4), (2, 4)
        ("norms", (4 + 20**0.5) / 2),
    ],
)
def test_disagreement_of_known_nets(form, loss):
    method, state, batch = disagreement_of_known_nets(form=form)
    np.testing.assert_allclose(pays(method, state, batch), 1.0, rtol=1e-6)
    np.testing.assert_allclose(learns(method, state, batch)[1]["loss"], loss, rtol=1e-5)


def test_disagreement_pays_for_state_and_action_not_for_where_they_led():
    method, state = started("disagreement")
    batch = batch_of()
    np.testing.assert_array_equal(
        pays(method, state, batch), pays(method, state, replace(batch, next_obs=9 * batch.obs))
    )
    moved = replace(batch, action=-batch.action)
    assert (pays(method, state, batch) != pays(method, state, moved)).all()


def test_members_of_disagreement_part_by_the_rows_they_keep():
    """Begun alike they stay alike where all see all; where none keeps any, none moves."""
    for kept, alike, moves in [(1.0, True, True), (0.5, False, True), (1e-9, True, False)]:
        method, state = started("disagreement", kept=kept)
        twins = jax.tree.map(lambda a: jnp.broadcast_to(a[:1], a.shape), state.models.model)
        state = eqx.tree_at(lambda s: s.models.model, state, twins)
        after, _ = learns(method, state, batch_of())
        ways = np.asarray(told(after.models.model, batch_of()))
        assert (np.ptp(ways, axis=0).max() < 1e-5) == alike
        assert same(after.models.model, twins) != moves


def test_the_loss_of_disagreement_is_a_mean_over_the_rows_that_are_kept():
    method, state, batch = disagreement_of_known_nets(form="squares")
    method = replace(method, kept=0.5)
    losses = [learns(method, state, batch, seed)[1]["loss"] for seed in range(2, 6)]
    np.testing.assert_allclose(np.mean(losses), 9, rtol=0.2)


# MADE: || f_hat - f || = 5. x = (1, 2, 1/2) told as 0: mean square 1.75. Code N(1, 1), whose
# KL to N(0, 1) is 1/2 in each dimension. e = 2.25 with one dimension


def made_of_known_nets(**changes):
    method, state = started("made", **{"code": 1, **ALL, **changes})
    nets, c = state.density.model, method.code
    state = eqx.tree_at(
        lambda s: (s.target, s.cover.model, s.known, *vars(s.density.model).values()),
        state,
        (
            says(state.target, [1.0, 0, 0, 0]),
            says(state.cover.model, [4.0, 4, 0, 0]),
            says(state.known, [4.0, 4, 0, 0]),
            says(nets.encoder, [1.0] * c + [0.0] * c),
            says(nets.decoder, [0.0] * 3),
        ),
    )
    batch = replace(
        batch_of(),
        obs=jnp.broadcast_to(jnp.array([1.0, 2.0]), (T, N, OBS)),
        action=jnp.full((T, N, 1), 0.5),
    )
    return method, state, batch


def test_made_of_known_nets():
    method, state, batch = made_of_known_nets()
    np.testing.assert_allclose(pays(method, state, batch), 5 * np.exp(2.25 / 2), rtol=1e-5)
    metrics = learns(method, state, batch)[1]
    np.testing.assert_allclose(metrics["cover_loss"], 25 / 4, rtol=1e-5)
    np.testing.assert_allclose(metrics["density_loss"], 2.25, rtol=1e-5)


def test_made_weighs_a_narrow_code():
    """log sigma = 1: KL = (e^2 + 1 - 1 - 2) / 2 = e^2 / 2 - 1."""
    method, state, batch = made_of_known_nets()
    wide = says(state.density.model.encoder, [1.0, 1.0])
    state = eqx.tree_at(lambda s: s.density.model.encoder, state, wide)
    e = 1.75 + np.exp(2) / 2 - 1
    np.testing.assert_allclose(pays(method, state, batch), 5 * np.exp(e / 2), rtol=1e-5)


def test_made_sums_the_divergence_over_the_code():
    method, state, batch = made_of_known_nets(code=4)
    np.testing.assert_allclose(pays(method, state, batch), 5 * np.exp(3.75 / 2), rtol=1e-5)


def test_made_cuts_what_would_overflow():
    method, state, batch = made_of_known_nets(most=2.0)
    np.testing.assert_allclose(pays(method, state, batch), 5 * np.e, rtol=1e-5)
    far = replace(batch, obs=1e6 * batch.obs)  # cut at (5, 5): e = (25 + 25 + 0.25) / 3 + 0.5
    np.testing.assert_allclose(pays(replace(method, most=99.0), state, far) / 5, np.exp(17.25 / 2))


def test_made_is_paid_over_the_deviation_of_the_density_factor_alone():
    method, state = started("made", code=1)
    factors = []
    for seed in (4, 5):
        state, _ = learns(method, state, batch_of(seed), seed)
        factors.append(pays_for_density(method, state, batch_of(seed)))
    batch = batch_of()
    new = pays(method, eqx.tree_at(lambda s: s.factors.var, state, jnp.ones(())), batch)
    np.testing.assert_allclose(pays(method, state, batch), new / np.std(factors), rtol=1e-4)


def pays_for_density(method, state, batch):
    """exp(e / 2), from what is paid where the cover's factor is 5 and nothing is scaled."""
    known = (says(state.target, [0.0] * 4), says(state.known, [3.0, 4, 0, 0]), jnp.ones(()))
    state = eqx.tree_at(lambda s: (s.target, s.known, s.factors.var), state, known)
    return pays(method, state, batch) / 5


def test_made_moves_cover_and_density_and_not_the_target():
    method, state = started("made")
    after, _ = learns(method, state, batch_of())
    assert same(after.target, state.target)
    assert not same(after.cover.model, state.cover.model)
    assert not same(after.density.model, state.density.model)


# AGAC: the policy is N(1, 1), the adversary N(0, 1)


def agac_of_known_nets(spec=SPEC, mean=(0.0,), **changes):
    method = small("agac", **ALL, **changes)
    state = method.init(spec, jax.random.key(0))
    net = says(state.adversary.model.net, list(mean))
    return method, eqx.tree_at(lambda s: s.adversary.model.net, state, net)


def acting(policy, action):
    policy, action = jnp.array(policy, float), jnp.array(action, float)
    return replace(
        batch_of(),
        policy=jnp.broadcast_to(policy, (T, N, policy.size)),
        action=jnp.broadcast_to(action, (T, N, action.size)),
    )


def test_agac_of_known_gaussians():
    """KL = (1 - 0)^2 / 2. At a = 2: log pi - log pi_adv = -(2 - 1)^2 / 2 + 2^2 / 2 = 3/2."""
    batch = acting([1.0, 0.0], [2.0])
    method, state = agac_of_known_nets()
    np.testing.assert_allclose(pays(method, state, batch), 0.5, rtol=1e-6)
    np.testing.assert_allclose(learns(method, state, batch)[1]["loss"], 0.5, rtol=1e-6)
    assert method.direct(state, batch) is None

    method, state = agac_of_known_nets(form="advantage", c=0.1)
    np.testing.assert_array_equal(pays(method, state, batch), 0)
    np.testing.assert_allclose(method.direct(state, batch).advantage, 0.15, rtol=1e-5)
    np.testing.assert_allclose(method.direct(state, batch).target, 0.05, rtol=1e-5)


def test_agac_takes_the_policys_own_deviation():
    """KL( N(1, 3) || N(0, 1) ) = -log 3 + (9 + 1 - 1) / 2."""
    method, state = agac_of_known_nets(form="advantage", c=0.1)
    batch = acting([1.0, np.log(3)], [2.0])
    target = 0.1 * (4.5 - np.log(3))
    np.testing.assert_allclose(method.direct(state, batch).target, target, rtol=1e-5)
    ratio = norm.logpdf(2, 1, 3) - norm.logpdf(2, 0, 1)
    np.testing.assert_allclose(method.direct(state, batch).advantage, 0.1 * ratio, rtol=1e-5)


def test_agac_of_known_odds():
    """KL( (1/2, 1/2) || (1/4, 3/4) ) = log(2) / 2 + log(2/3) / 2; at the second, log(2/3)."""
    spec, p, q = replace(SPEC, discrete=True, action_dim=2), [0.5, 0.5], [0.25, 0.75]
    batch = acting(np.log(p), [0.0, 1.0])
    method, state = agac_of_known_nets(spec, mean=np.log(q))
    np.testing.assert_allclose(pays(method, state, batch), np.log(4 / 3) / 2, rtol=1e-5)
    np.testing.assert_allclose(pays(method, state, batch), entropy(p, q), rtol=1e-5)
    method = replace(method, form="advantage", c=0.1)
    direct = method.direct(state, batch)
    np.testing.assert_allclose(direct.advantage, 0.1 * np.log(2 / 3), rtol=1e-5)
    np.testing.assert_allclose(direct.target, 0.05 * np.log(4 / 3), rtol=1e-5)


def test_agac_counts_states_anew_in_every_episode():
    """World 0 is at a, b, a; its episode ends; a, c. World 1: a, a, a, b, b. World 2 ends at once:
    a; a, b, b, a."""
    a, b, c = [0.0, 1.0], [0.0, 2.0], [1.0, 1.0]
    reached = np.transpose([[a, b, a, a, c], [a, a, a, b, b], [a, a, b, b, a]], (1, 0, 2))
    ended = np.zeros((T, N), bool)
    ended[[2, 0], [0, 2]] = True
    method, state = agac_of_known_nets(form="advantage", visits=0.25)
    new = [[1, 1, 0, 1, 1], [1, 0, 0, 1, 0], [1, 1, 1, 0, 0]]
    for ends in ("terminated", "truncated"):
        none = jnp.zeros((T, N), bool)
        batch = replace(
            batch_of(), terminated=none, truncated=none, next_obs=jnp.asarray(reached, jnp.float32)
        )
        batch = replace(batch, **{ends: jnp.asarray(ended)})
        np.testing.assert_allclose(pays(method, state, batch), 0.25 * np.transpose(new))
    both, state = agac_of_known_nets(visits=0.25)
    difference_only = pays(replace(both, visits=0.0), state, batch)
    np.testing.assert_allclose(
        pays(both, state, batch), difference_only + 0.25 * np.transpose(new), rtol=1e-5
    )


def test_agac_sends_no_gradient_anywhere_but_into_its_adversary():
    method, state = started("agac", form="advantage")
    batch = batch_of()

    def added(adversary, policy):
        known = eqx.tree_at(lambda s: s.adversary.model, state, adversary)
        direct = method.direct(known, replace(batch, policy=policy))
        return direct.advantage.sum() + direct.target.sum()

    assert added(state.adversary.model, batch.policy) != 0
    grads = jax.grad(added, argnums=(0, 1))(state.adversary.model, batch.policy)
    assert all((x == 0).all() for x in leaves(grads))
    loss = lambda adversary: difference(adversary, batch).mean()  # noqa: E731
    assert any((x != 0).any() for x in leaves(jax.grad(loss)(state.adversary.model)))


def test_agac_brings_the_adversary_to_the_policy_and_not_to_the_action():
    method, state = started("agac", width=16, learning_rate=1e-2, passes=200, **{"minibatch": 15})
    batch = acting([0.7, -1.0], [-3.0])
    after, _ = learns(method, state, batch)
    told = numpy_mlp(after.adversary.model.net, np.asarray(batch.obs))
    np.testing.assert_allclose(told, 0.7, atol=0.05)
    np.testing.assert_allclose(after.adversary.model.log_std, -1.0, atol=0.05)


def test_random_is_a_standard_normal_of_the_key_alone():
    method = METHODS["random"]()
    batch = jax.tree.map(lambda a: jnp.tile(a, (100, 1) + (1,) * (a.ndim - 2)), batch_of())
    r = np.asarray(method.reward(None, batch, jax.random.key(0)))
    assert r.shape == (1, 100 * T, N)
    assert kstest(r.reshape(-1), "norm").pvalue > 0.01
    for axis in (1, 2):  # neighbours in time and beside have nothing to do with each other
        pairs = np.stack([r, np.roll(r, 1, axis)]).reshape(2, -1)
        assert abs(np.corrcoef(pairs)[0, 1]) < 4 / r.size**0.5
    other = replace(batch, obs=batch.obs + 1, reward=-batch.reward)
    np.testing.assert_array_equal(r, method.reward(None, other, jax.random.key(0)))
    assert (r != np.asarray(method.reward(None, batch, jax.random.key(1)))).all()
    assert method.update(None, batch, jax.random.key(0)) == (None, {})


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        *[(n, {"minibatch": 16}, "minibatch = 16: 1 to 15") for n in KNOWLEDGE],
        *[(n, {"minibatch": 0}, "minibatch = 0: 1 to 15") for n in KNOWLEDGE],
        ("disagreement", {"members": 1}, "members = 1: it takes 2"),
        ("disagreement", {"kept": 0.0}, "kept = 0.0: above 0, at most 1"),
        ("disagreement", {"kept": 1.5}, "kept = 1.5: above 0, at most 1"),
        ("random", {"skill_kind": "discrete", "skill_dim": 1}, "skill-dim = 1 is too small"),
        ("random", {"skill_dim": -1}, "skill-dim = -1 is too small"),
    ],
)
def test_sizes_that_cannot_work_are_refused(name, changes, words):
    with pytest.raises(UserError, match=words):
        small(name, **changes).check(SPEC, T * N, T)


def test_agac_refuses_to_count_visits_in_a_replay_and_nowhere_else():
    with pytest.raises(UserError, match="visits = 0.5 .* take agent ppo, or 0"):
        small("agac", visits=0.5).check(SPEC, T * N, 1)
    assert small("agac", visits=0.5).check(SPEC, T * N, T) is None
    assert small("agac").check(SPEC, T * N, 1) is None


@pytest.mark.parametrize("name", [*KNOWLEDGE, "random"])
def test_sizes_that_work_are_not_refused(name):
    assert small(name).check(SPEC, T * N, T) is None
    least = {"minibatch": T * N} if "minibatch" in vars(small(name)) else {"skill_dim": 0}
    assert dataclasses.replace(small(name), **least).check(SPEC, T * N, T) is None


@pytest.mark.parametrize("name", [*KNOWLEDGE, "proto"])
def test_no_passes_are_refused(name):
    with pytest.raises(UserError, match="passes = 0"):
        small(name, passes=0).check(SPEC, T * N, T)
