"""Kernels of our own. Two are called by MuJoCo Warp in every evaluation of the dynamics, of which
RK4 makes four a sub-step; `hold` after the sub-steps.

`turn_frames` turns the frames of contacts between a plane and a capsule as MuJoCo turns them. The
cone of friction is a pyramid, so it matters where its edges lie. MuJoCo lays them along the
capsule. MuJoCo Warp 3.17 does so only where the capsule lies flatter than 60 degrees, and along y
elsewhere: the legs of an ant stand steeper.

`Peaks` keeps the most contacts and rows of constraints of a step. Warp's own flag for rows looks at
the last evaluation of a sub-step alone.
"""

# pyright: reportAttributeAccessIssue=false
# (mujoco is compiled and has no types)

from typing import Any, no_type_check

import mujoco
import warp as wp

PLANE = wp.constant(int(mujoco.mjtGeom.mjGEOM_PLANE))
CAPSULE = wp.constant(int(mujoco.mjtGeom.mjGEOM_CAPSULE))


@wp.kernel(enable_backward=False)
@no_type_check
def _turn(
    geom_type: wp.array(dtype=int),
    xmat: wp.array2d(dtype=wp.mat33),
    geom: wp.array(dtype=wp.vec2i),
    world: wp.array(dtype=int),
    count: wp.array(dtype=int),
    frame: wp.array(dtype=wp.mat33),
):
    i = wp.tid()
    if i >= count[0]:
        return
    plane, capsule = geom[i][0], geom[i][1]
    if plane < 0 or capsule < 0:
        return
    if geom_type[plane] != PLANE or geom_type[capsule] != CAPSULE:
        return
    turn = xmat[world[i], capsule]
    axis = wp.vec3(turn[0, 2], turn[1, 2], turn[2, 2])
    normal = frame[i][0]
    along = axis - normal * wp.dot(normal, axis)
    if wp.length(along) < 1.0e-6:
        return
    along = wp.normalize(along)
    frame[i] = wp.matrix_from_rows(normal, along, wp.cross(normal, along))


def turn_frames(m: Any, d: Any) -> None:
    """A `contactfilter` of MuJoCo Warp's."""
    wp.launch(
        _turn,
        dim=d.naconmax,
        inputs=[m.geom_type, d.geom_xmat, d.contact.geom, d.contact.worldid, d.nacon],
        outputs=[d.contact.frame],
    )


@wp.kernel(enable_backward=False)
@no_type_check
def _rise(
    nefc: wp.array(dtype=int),
    nacon: wp.array(dtype=int),
    ncollision: wp.array(dtype=int),
    rows: wp.array(dtype=int),
    pairs: wp.array(dtype=int),
):
    i = wp.tid()
    rows[i] = wp.max(rows[i], nefc[i])
    if i == 0:
        pairs[0] = wp.max(pairs[0], wp.max(nacon[0], ncollision[0]))


@wp.kernel(enable_backward=False)
@no_type_check
def _hold(places: wp.array(dtype=int), qpos: wp.array2d(dtype=float)):
    world, i = wp.tid()
    qpos[world, places[i]] = 0.0


def hold(places: Any, qpos: Any) -> None:
    """Puts these joints of every world back to 0."""
    wp.launch(_hold, dim=(qpos.shape[0], places.size), inputs=[places], outputs=[qpos])


class Peaks:
    def __init__(self, worlds: int):
        self.rows = wp.zeros(worlds, dtype=int)  # of each world
        self.pairs = wp.zeros(1, dtype=int)  # of all worlds together: they share the room

    def clear(self) -> None:
        self.rows.zero_()
        self.pairs.zero_()

    def rise(self, m: Any, d: Any) -> None:
        """A `control` callback of MuJoCo Warp's: all contacts and constraints are known by then."""
        wp.launch(
            _rise,
            dim=d.nworld,
            inputs=[d.nefc, d.nacon, d.ncollision],
            outputs=[self.rows, self.pairs],
        )
