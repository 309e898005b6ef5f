"""The (h, g) plane of the labels of an example: λ-oracle and constrained λ-oracle."""

from structopt.plane.plane import Plane
from structopt.plane.point_plane import PointPlane
from structopt.plane.points import Point

__all__ = ["Plane", "Point", "PointPlane"]
