"""Labels as points (h, g) of a plane: the λ-oracle and the constrained one."""

from structopt.plane.plane import Plane
from structopt.plane.point_plane import PointPlane
from structopt.plane.points import Point

__all__ = ["Plane", "Point", "PointPlane"]
