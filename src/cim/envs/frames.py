"""Frames of contacts between a plane and a capsule, turned as MuJoCo turns them.

The cone of friction is a pyramid, so it matters where its edges lie. MuJoCo lays them along the
capsule. MuJoCo Warp 3.17 does so only where the capsule lies flatter than 60 degrees, and along y
elsewhere: the legs of an ant stand steeper.
"""

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
