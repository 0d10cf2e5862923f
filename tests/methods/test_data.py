"""The methods that pay for rare states: known values, their memories, refusals."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2
from scipy.stats import entropy as scipy_entropy
from test_methods import OBS, SPEC, N, T, a_batch, case_of, small

from cim.methods.proto import shares
from cim.parts.nets import MLP
from cim.types import UserError
from methods.plain import numpy_mlp
from methods.worlds import VISITED, around, leaves, one_step, same

DATA = ["maxent", "apt", "re3", "proto"]
LEARNERS = [(n, changes) for n in DATA for changes in case_of(n).VARIANTS]
XY = replace(SPEC, position=(0, 1))
LINE = [0.0, 1, 3, 6]  # 2 nearest: (1, 3), (1, 2), (2, 3), (3, 5)


def started(name, spec=SPEC, **changes):
    method = small(name, **changes)
    return method, jax.jit(lambda key: method.init(spec, key))(jax.random.key(0))


def batch_of(seed=1):
    return a_batch(small("rnd").skills, jax.random.key(seed))


def at(states):
    """A rollout of one world that reaches these; where it was is somewhere else."""
    reached = jnp.array(states, jnp.float32)[:, None]
    batch = jax.tree.map(lambda a: jnp.resize(a, (len(states), 1, *a.shape[2:])), batch_of())
    return replace(batch, obs=reached[::-1] + 7, next_obs=reached)


def pays(method, state, batch):
    return np.asarray(jax.jit(method.reward)(state, batch, jax.random.key(3)))[0]


def learns(method, state, batch, seed=2):
    return jax.jit(method.update)(state, batch, jax.random.key(seed))


def identity(width):
    """A net of two layers that leaves points of the positive quadrant where they are."""
    net = MLP([2, width, 2], jax.random.key(0))
    weights = [jnp.eye(2, width), jnp.eye(2, width)]
    return eqx.tree_at(lambda n: [layer.weight for layer in n.layers], net, weights)


@pytest.mark.parametrize(("name", "changes"), LEARNERS, ids=str)
def test_reward_is_its_equation_after_two_rollouts_too(name, changes):
    method, state = started(name, **changes)
    for seed in (4, 5):
        state, _ = learns(method, state, batch_of(seed), seed)
    near = replace(batch_of(), next_obs=0.9 * batch_of(5).next_obs, obs=batch_of(4).obs)
    for batch in (batch_of(5), near):  # what was learned last, and near it
        expected = case_of(name).oracle(method, state, jax.tree.map(np.asarray, batch))
        found = pays(method, state, batch)[None]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("name", ["maxent", "re3", "proto"])
def test_what_was_visited_pays_less_than_before_and_than_what_was_not(name):
    method, state = started(name)
    seen, unseen = around(VISITED), around(-VISITED)

    def again(state, number):
        return method.update(state, seen, jax.random.fold_in(jax.random.key(2), number))

    after, _ = jax.jit(lambda s: jax.lax.scan(again, s, jnp.arange(50)))(state)
    before, now = pays(method, state, seen), pays(method, after, seen)
    assert now.mean() < 0.7 * before.mean()
    assert now.mean() < 0.7 * pays(method, after, unseen).mean()


@pytest.mark.parametrize("changes", [{}, {"encoder": True}], ids=str)
def test_apt_pays_the_state_that_lies_apart_most(changes):
    method, state = started("apt", **changes)
    batch = around(VISITED)
    batch = replace(batch, next_obs=batch.next_obs.at[3, 1].set(-VISITED))
    assert np.unravel_index(pays(method, state, batch).argmax(), (T, N)) == (3, 1)


@pytest.mark.parametrize("name", ["maxent", "re3", "proto"])
def test_rows_without_time_teach_what_they_teach_with_it(name):
    method, state = started(name)
    batch = batch_of()
    timed, flat = learns(method, state, batch), learns(method, state, batch.flat)
    assert not same(timed[0], state)
    assert same(timed, flat)


@pytest.mark.parametrize(("name", "changes"), [("proto", {}), ("apt", {"encoder": True})], ids=str)
def test_a_sample_of_the_replay_is_one_minibatch_and_one_step(name, changes):
    method, state = started(name, passes=7, **changes)
    after, metrics = learns(method, state, one_step(batch_of()))
    whole = replace(method, passes=1, minibatch=T * N)
    _, expected = learns(whole, state, batch_of())
    np.testing.assert_allclose(metrics["loss"], expected["loss"], rtol=1e-5)
    trained = after.net if name == "proto" else after.trunk
    counts = [int(x) for x in leaves(trained.opt_state) if jnp.isdtype(x.dtype, "integral")]
    assert set(counts) == {1}  # Adam's


# MaxEnt: four bins an axis are cut at -2, 0 and 2; 16 cells. First rollout: two steps in the cell
# of (1, 1), one of (3, -1), one of (-3, -3). Second: one of (1, 1), one of (-1, 1).
FIRST = [[1, 1], [0.5, 1.9], [3, -1], [-3, -3]]
SECOND = [[1, 0.1], [-1, 1]]
ASKED = [[1, 1], [3, -1], [-1, 1], [-1, -1]]


def mixed(states=(FIRST, SECOND), **changes):
    method, state = started("maxent", XY, bins=4, **changes)
    for rollout in states:
        state, metrics = learns(method, state, at(rollout))
    return method, state, metrics


@pytest.mark.parametrize(
    ("step", "d"),
    [
        (0.0, [1 / 2, 1 / 8, 1 / 4, 0]),  # half of each rollout
        (0.75, [1 / 8 + 3 / 8, 1 / 16, 3 / 8, 0]),
        (0.25, [3 / 8 + 1 / 8, 3 / 16, 1 / 8, 0]),
    ],
)
def test_maxent_of_two_rounds(step, d):
    d = np.array(d)
    method, state, _ = mixed(step=step)
    np.testing.assert_allclose(pays(method, state, at(ASKED))[:, 0], -np.log(d + 1 / 16), rtol=1e-5)
    inverse = replace(method, form="inverse")
    np.testing.assert_allclose(pays(inverse, state, at(ASKED))[:, 0], 1 / (d + 1 / 4), rtol=1e-5)


def test_maxent_mixes_three_rounds_evenly_and_begins_with_nothing():
    """(1, 1) is 1/2, 1/2 and 0 of them."""
    method, state, _ = mixed((FIRST, SECOND, [[-1, -1]]))
    d = np.array([1 / 3, 1 / 12, 1 / 6, 1 / 3])
    paid = pays(method, state, at(ASKED))[:, 0]
    np.testing.assert_allclose(paid, -np.log(d + 1 / 16), rtol=1e-5)
    method, state = started("maxent", XY, bins=4)
    np.testing.assert_allclose(pays(method, state, at(ASKED)), np.log(16), rtol=1e-6)


def test_maxent_reports_the_entropy_of_the_mixture():
    """Shares 1/2, 1/8, 1/8, 1/4: 1/2 log 2 + 1/4 log 8 + 1/4 log 4 = 7/4 log 2."""
    _, state, metrics = mixed()
    np.testing.assert_allclose(metrics["entropy"], 1.75 * np.log(2), rtol=1e-5)
    method, state = started("maxent", bins=3)
    for seed in range(4, 7):
        state, metrics = learns(method, state, batch_of(seed), seed)
        np.testing.assert_allclose(state.mixture.sum(), 1, rtol=1e-5)
        np.testing.assert_allclose(metrics["entropy"], scipy_entropy(state.mixture), rtol=1e-5)


def test_maxent_puts_what_lies_outside_into_the_outermost_cells():
    method, state, _ = mixed(([[9, 9], [-9, -9]],))
    paid = pays(method, state, at([[3, 3], [-3, -3], [50, 4.1], [3, -3]]))[:, 0]
    np.testing.assert_allclose(paid, -np.log(np.array([0.5, 0.5, 0.5, 0]) + 1 / 16), rtol=1e-5)


def test_maxent_sees_x_and_y_as_they_are_and_the_rest_by_unit_projections():
    """In a world of five dimensions, of which the fourth is x and the second y."""
    spec = replace(SPEC, obs_dim=5, position=(3, 1))
    axes = np.asarray(started("maxent", spec, projections=2, bins=3)[1].axes)
    assert axes.shape == (5, 4)
    np.testing.assert_array_equal(axes[:, :2].sum(1), [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(np.sort(axes[:, :2], axis=0)[-1], 1)
    np.testing.assert_array_equal(axes[[1, 3], 2:], 0)
    np.testing.assert_allclose((axes[:, 2:] ** 2).sum(0), 1, rtol=1e-5)
    assert np.linalg.matrix_rank(axes) == 4


def test_maxent_hashes_what_its_histogram_cannot_hold():
    """64 combinations among 50 cells: steps of one combination share a cell, one cell takes few."""
    method, state = started("maxent", projections=3, bins=4, cells=50)
    assert state.mixture.shape == (50,)
    points = np.random.default_rng(0).uniform(-4, 4, (400, OBS)).astype(np.float32) * 3
    cells = np.asarray(method._cell(state, jnp.asarray(points)))
    places = np.clip((points @ np.asarray(state.axes) + 4) / 2 // 1, 0, 3)
    by_place = {}
    for place, cell in zip(map(tuple, places), cells, strict=True):
        assert by_place.setdefault(place, cell) == cell
    assert 0 <= cells.min() < cells.max() < 50
    assert len(set(by_place.values())) > 0.55 * len(by_place) > 10


# APT: the points of the line, each five times as far, in the plane


@pytest.mark.parametrize(
    ("changes", "r"),
    [
        ({}, np.log([11, 8.5, 13.5, 21])),  # 1 + 5 (2, 1.5, 2.5, 4)
        ({"include_self": True}, np.log([3.5, 3.5, 6, 8.5])),  # 1 + 5 (0.5, 0.5, 1, 1.5)
        ({"k": 3}, np.log(1 + 5 * np.array([10, 8, 8, 14]) / 3)),
    ],
    ids=str,
)
def test_apt_of_a_known_line(changes, r):
    method, state = started("apt", **{"k": 2, **changes})
    batch = at(np.outer(LINE, [3, 4]))
    np.testing.assert_allclose(pays(method, state, batch)[:, 0], r, rtol=1e-5)
    current = replace(method, pays_for="current")  # the same points backwards, elsewhere
    np.testing.assert_allclose(pays(current, state, batch)[:, 0], r[::-1], rtol=1e-4)


def test_apt_among_a_crowd_pays_as_among_some_of_the_states():
    """Points 10 i: with three others of all fifteen drawn, a nearest one lies a multiple of 10
    away, further than the nearest of all."""
    method, state = started("apt", k=1, crowd=4)
    batch = at([[10.0 * i, 0] for i in range(15)])
    steps = np.expm1(pays(method, state, batch)[:, 0]) / 10
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-3)
    all_of_them = pays(replace(method, crowd=15), state, batch)[:, 0]
    np.testing.assert_allclose(all_of_them, np.log(11), rtol=1e-5)
    assert steps.min() >= 1 - 1e-3
    assert steps.mean() > 1.3


def test_apt_learns_from_how_far_its_two_models_miss_with_no_gradient_stopped():
    """Adam's first step is against the sign of the gradient of the loss written out."""
    method, state = started("apt", encoder=True, passes=1, minibatch=T * N)
    batch, old = batch_of(), state.trunk.model
    action = jnp.clip(batch.action, -1, 1)

    def h(net, s):
        x = net.trunk(s)
        off = x - x.mean(-1, keepdims=True)
        return jnp.tanh(off / jnp.sqrt((off**2).mean(-1, keepdims=True) + 1e-5))

    def loss(net):
        now, then = h(net, batch.obs), h(net, batch.next_obs)
        told = net.forward(jnp.concatenate([now, action], -1))
        meant = jnp.tanh(net.inverse(jnp.concatenate([now, then], -1)))
        return sum(jnp.linalg.norm(x, axis=-1).mean() for x in (then - told, action - meant))

    new, metrics = learns(method, state, batch)
    np.testing.assert_allclose(metrics["loss"], loss(old), rtol=1e-5)
    for a, b, g in zip(*map(leaves, (new.trunk.model, old, jax.grad(loss)(old))), strict=True):
        clear = np.abs(g) > 1e-3
        assert clear.any()
        np.testing.assert_array_equal(np.sign(a - b)[clear], -np.sign(g)[clear])


def test_apt_comes_to_foretell_what_actions_do():
    method, state = started("apt", encoder=True, width=16, passes=200, learning_rate=1e-2)
    batch = batch_of()
    action = jnp.clip(batch.action, -0.9, 0.9)
    batch = replace(batch, action=action, next_obs=batch.obs + action)
    after, _ = learns(method, state, batch)
    missed = [float(s.trunk.model.loss(batch).mean()) for s in (state, after)]
    assert missed[1] < 0.3 * missed[0]


def test_apt_without_an_encoder_has_nothing_to_learn():
    method, state = started("apt")
    assert learns(method, state, batch_of()) == (state, {})
    assert leaves(state) == []


# RE3: f leaves points where they are; the memory is at x = 1, 3, 5, 9. Of 0 the three nearest are
# 1, 3, 5 away, of 4 they are 1, 1, 3: mean 14/6, variance 46/6 - 196/36 = 20/9


def remembering(form="mean"):
    method, state = started("re3", form=form, width=2, features=2, memory=4, kept=2)
    memory = jnp.array([[9.0, 0], [1, 0], [5, 0], [3, 0]])
    get = lambda s: (s.encoder, s.memory)  # noqa: E731
    return method, eqx.tree_at(get, state, (identity(2), memory))


@pytest.mark.parametrize(
    ("form", "r"),
    [
        ("mean", np.log(1 + np.array([3, 5 / 3]) / (20 / 9) ** 0.5)),
        ("kth", [5, 3]),  # of 5 and 3: mean 4, deviation 1
    ],
)
def test_re3_of_a_known_memory(form, r):
    method, state = remembering(form)
    np.testing.assert_allclose(pays(method, state, at([[0, 0], [4, 0]]))[:, 0], r, rtol=1e-5)


def test_re3_divides_by_the_deviation_of_all_distances_so_far():
    """After distances of mean 2 and variance 3, six of them: mean 13/6, variance
    (6 (3 + 4) + 46) / 12 - 169/36 = 95/36."""
    method, state = remembering()
    before = jax.tree.map(jnp.asarray, (2.0, 3.0, 6.0))
    get = lambda s: (s.distances.mean, s.distances.var, s.distances.count)  # noqa: E731
    state = eqx.tree_at(get, state, before)
    r = np.log(1 + np.array([3, 5 / 3]) / (95 / 36) ** 0.5)
    np.testing.assert_allclose(pays(method, state, at([[0, 0], [4, 0]]))[:, 0], r, rtol=1e-5)


def test_re3_writes_its_memory_in_a_ring():
    """Six rows a batch, twelve places: the third batch overwrites the first."""
    method, state = started("re3")
    memories = [np.asarray(state.memory)]
    for seed in (4, 5, 6):
        batch = batch_of(seed)
        new, _ = learns(method, state, batch, seed)
        assert same(new.encoder, state.encoder)
        memories.append(np.asarray(new.memory))
        f = numpy_mlp(state.encoder, np.asarray(batch.next_obs)).reshape(T * N, -1)
        written = slice(0, 6) if seed in (4, 6) else slice(6, 12)
        others = slice(6, 12) if seed in (4, 6) else slice(0, 6)
        gaps = np.linalg.norm(f[None] - memories[-1][written][:, None], axis=-1)
        np.testing.assert_allclose(gaps.min(1), 0, atol=1e-5)
        assert len(set(gaps.argmin(1).tolist())) == 6  # six different steps
        np.testing.assert_array_equal(memories[-1][others], memories[-2][others])
        state = new
    assert int(state.head) == 6


def test_re3_puts_a_small_batch_whole_into_its_memory():
    method, state = started("re3")
    batch = jax.tree.map(lambda a: a[:1], batch_of())
    new, _ = learns(method, state, batch)
    f = numpy_mlp(state.encoder, np.asarray(batch.next_obs[0]))
    rows = lambda a: np.sort(np.asarray(a)[:3], axis=0)  # noqa: E731
    np.testing.assert_allclose(rows(new.memory), rows(f), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(new.memory[3:], state.memory[3:])
    assert int(new.head) == 3


def test_the_deviation_of_re3_is_that_of_distances_to_others():
    """Of 0 and of 4 to the memory, as they are paid: 1, 3, 5, 1, 1, 3."""
    method, state = remembering()
    new, _ = learns(method, state, at([[0, 0], [4, 0]]))
    stats = [new.distances.count, new.distances.mean, new.distances.var]
    np.testing.assert_allclose(stats, [6, 14 / 6, 20 / 9], rtol=1e-5)


# Proto: pred and pred_slow leave points where they are, prototypes are the axes


def prototypical(**changes):
    method = small("proto", features=2, prototypes=2, temperature=1 / np.log(4), **changes)
    method, state = replace(method, minibatch=2, passes=1), None
    state = jax.jit(lambda key: method.init(SPEC, key))(jax.random.key(0))
    pred = eqx.tree_at(lambda n: n.layers[0].weight, state.net.model.pred, jnp.eye(2))
    proj = eqx.tree_at(
        lambda n: [layer.weight for layer in n.layers],
        state.net.model.proj,
        [jnp.eye(2, 8), jnp.eye(2, 8)],
    )
    get = lambda s: (s.net.model.pred, s.net.model.proj, s.net.model.centres, s.slow)  # noqa: E731
    return method, eqx.tree_at(get, state, (pred, proj, jnp.eye(2), pred))


def dealt(rows):
    """A rollout that goes from (0, 1) to these."""
    batch = at(rows)
    return replace(batch, obs=jnp.broadcast_to(jnp.array([0.0, 1.0]), batch.obs.shape))


# exp(score / T): (4, 1) for s' along the first prototype, (1, 1) for s' = 0. Each round divides
# columns, then rows, by their sums and their number:
# columns 5, 2 -> .4 .25 | .1 .25;                rows .65, .35 -> .3077 .1923 | .1429 .3571
# columns .4506, .5494 -> .3415 .175 | .1585 .325;   rows .5165, .4835 -> .3306 .1694 | .1639 .3361
# columns .4945, .5055 -> .3342 .1676 | .1657 .3324; rows .5018, .4982 -> .3330 .1670 | .1664 .3336
# and at last rows to 1. (Without end it would come to .6667 .3333.)
Q = np.array([[0.66606, 0.33394], [0.33272, 0.66728]])


def test_proto_deals_states_out_evenly_in_three_rounds():
    method, state = prototypical()
    part = dealt([[2, 0], [0, 0]]).flat
    q = shares(state.net.model.centres, state.slow, part, method.temperature)
    np.testing.assert_allclose(q, Q, atol=1e-4)
    fair = shares(state.net.model.centres, state.slow, dealt([[2, 0], [0, 3]]).flat, 1 / np.log(4))
    np.testing.assert_allclose(fair, [[0.8, 0.2], [0.2, 0.8]], rtol=1e-5)


def test_proto_of_known_nets():
    """Of s = (0, 1): p = (1/5, 4/5). L = -(q1 log(1/5) + q2 log(4/5)), the mean over both rows."""
    method, state = prototypical()
    loss = learns(method, state, dealt([[2, 0], [0, 0]]))[1]["loss"]
    q = Q.mean(0)
    np.testing.assert_allclose(loss, q[0] * np.log(5) + q[1] * np.log(5 / 4), rtol=1e-4)


def test_proto_pays_the_distance_to_its_third_neighbour():
    """u = (1, 0); the queue lies at angles of 60, 90, 180 and 300 degrees: 1, sqrt 2, 2, 1."""
    method, state = prototypical(queue=4)
    angles = np.radians([90, 60, 300, 180])
    queue = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], 1), jnp.float32)
    state = eqx.tree_at(lambda s: s.queue, state, queue)
    for k, r in [(1, 1), (2, 1), (3, 2**0.5)]:
        paid = pays(replace(method, k=k), state, at([[5, 0], [0.1, 0]]))
        np.testing.assert_allclose(paid, r, rtol=1e-5)


def test_proto_pred_slow_follows_pred_and_gets_no_gradient():
    method, state = started("proto", passes=1, minibatch=T * N)
    zero = jax.tree.map(jnp.zeros_like, state.slow)
    after, _ = learns(method, eqx.tree_at(lambda s: s.slow, state, zero), batch_of())
    for slow, new in zip(leaves(after.slow), leaves(after.net.model.pred), strict=True):
        np.testing.assert_allclose(slow, 0.05 * new, rtol=1e-4, atol=1e-7)
    assert not same(after.net.model.pred, state.net.model.pred)
    weigh = lambda centres, slow: shares(centres, slow, batch_of().flat, 0.5)[:, 0].sum()  # noqa: E731
    grads = jax.grad(weigh, argnums=(0, 1))(state.net.model.centres, state.slow)
    assert all((g == 0).all() for g in leaves(grads))


def test_proto_lets_pred_proj_and_prototypes_learn_from_the_online_branch():
    """Adam's first step is against the sign of the gradient of the loss written out, q held."""
    method, state = started("proto", passes=1, minibatch=T * N)
    batch, old = batch_of().flat, state.net.model
    q = shares(old.centres, state.slow, batch, method.temperature)

    def loss(net):
        u = net.proj(net.pred(batch.obs))
        u = u / jnp.linalg.norm(u, axis=-1, keepdims=True)
        return -(q * jax.nn.log_softmax(u @ net.centres.T / method.temperature)).sum(-1).mean()

    new, metrics = learns(method, state, batch_of())
    np.testing.assert_allclose(metrics["loss"], loss(old), rtol=1e-4)
    np.testing.assert_allclose(jnp.linalg.norm(new.net.model.centres, axis=1), 1, rtol=1e-5)
    g = jax.grad(loss)(old)
    for part in ("pred", "proj"):
        trees = (getattr(new.net.model, part), getattr(old, part), getattr(g, part))
        for a, b, d in zip(*map(leaves, trees), strict=True):
            clear = np.abs(d) > 1e-3
            assert clear.any()
            np.testing.assert_array_equal(np.sign(a - b)[clear], -np.sign(d)[clear])
    assert not same(new.net.model.centres, old.centres)


def test_proto_writes_its_queue_in_a_ring():
    """Three candidates a batch, seven places: 0-2, 3-5, then 6, 0, 1."""
    method, state = started("proto")
    for seed, written in [(4, [0, 1, 2]), (5, [3, 4, 5]), (6, [6, 0, 1])]:
        batch = batch_of(seed)
        new, _ = learns(method, state, batch, seed)
        u = numpy_mlp(new.net.model.pred, np.asarray(batch.flat.next_obs))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        gaps = np.linalg.norm(u[None] - np.asarray(new.queue)[written][:, None], axis=-1)
        np.testing.assert_allclose(gaps.min(1), 0, atol=1e-5)
        others = [i for i in range(7) if i not in written]
        np.testing.assert_array_equal(new.queue[jnp.array(others)], state.queue[jnp.array(others)])
        state = new
    assert int(state.head) == 2


def test_each_prototype_of_proto_draws_by_a_softmax_over_the_batch_without_a_temperature():
    method, state = prototypical(learning_rate=0.0, queue=5)
    batch = dealt([[1, 0], [0, 1], [-1, 0], [3, 4]])
    u = np.array([[1, 0], [0, 1], [-1, 0], [0.6, 0.8]])
    keys = jax.random.split(jax.random.key(7), 2000)
    queues = jax.jit(jax.vmap(lambda key: method.update(state, batch, key)[0].queue))(keys)
    for c in range(2):
        gaps = np.linalg.norm(np.asarray(queues)[:, c, None] - u[None], axis=-1)
        counts = np.bincount(gaps.argmin(1), minlength=4)
        expected = 2000 * np.exp(u[:, c]) / np.exp(u[:, c]).sum()
        assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, 3)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("apt", {"k": 15}, "k = 15 neighbours among 15 states: 1 to 14"),
        ("apt", {"k": 4, "crowd": 4}, "k = 4 neighbours among 4 states: 1 to 3"),
        ("apt", {"k": 0}, "k = 0 neighbours"),
        ("apt", {"encoder": True, "minibatch": 16}, "minibatch = 16: 1 to 15"),
        ("re3", {"k": 6}, "k = 6 neighbours among 6 states: 1 to 5"),
        ("re3", {"kept": 13}, "kept = 13: at most the memory's 12"),
        ("maxent", {"step": 1.0}, "step = 1.0: from 0, below 1"),
        ("maxent", {"step": -0.1}, "step = -0.1: from 0, below 1"),
        ("maxent", {"projections": 6}, "projections = 6: 0 to 5"),
        ("maxent", {"projections": -1}, "projections = -1: 0 to 5"),
        ("proto", {"k": 7}, "k = 7: 1 to 6"),
        ("proto", {"k": 0}, "k = 0: 1 to 6"),
        ("proto", {"prototypes": 8}, "prototypes = 8: 2 to the queue's 7"),
        ("proto", {"prototypes": 1}, "prototypes = 1: 2 to"),
        ("proto", {"minibatch": 16}, "minibatch = 16: 1 to 15"),
        ("maxent", {"bins": 1}, "bins = 1"),
        ("maxent", {"cells": 1}, "cells = 1"),
        ("maxent", {"span": 0.0}, "span = 0.0"),
        ("apt", {"k": 1, "include_self": True}, "k = 1"),
    ],
)
def test_sizes_that_cannot_work_are_refused(name, changes, words):
    with pytest.raises(UserError, match=words):
        small(name, **changes).check(SPEC, T * N, T)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *[(name, {}) for name in DATA],
        ("apt", {"k": 14, "minibatch": 99}),  # no encoder, no minibatch
        ("maxent", {"projections": 5, "step": 0.99, "bins": 2}),
        ("proto", {"k": 6, "prototypes": 7, "minibatch": 15}),
        ("re3", {"k": 5, "kept": 12}),
    ],
)
def test_sizes_that_work_are_not_refused(name, changes):
    assert small(name, **changes).check(SPEC, T * N, T) is None
