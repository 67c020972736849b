"""Where tokens stand on the paper: on a circle in time, on a sphere seen from afar, in a plane, along a line."""

from __future__ import annotations

import numpy as np

from deeplimits.limits.tokens.record import Tokens

INNER, ARCS, FAINT = 0.34, 6, 0.16
Places = tuple[np.ndarray, np.ndarray, float]
"""Places on the paper, (T, m, 2); 1 on the near side fading to FAINT on the far one, (T, m); share of squares shown."""


def circle(record: Tokens) -> Places:
    """Time runs outwards: a ring is a moment, a curve is the life of a token."""
    x = arcs(record.trajectory)
    radius = INNER + (1 - INNER) * np.linspace(0, 1, len(x))
    return radius[:, None, None] * x, np.ones(x.shape[:2]), 1.0


def arcs(x: np.ndarray) -> np.ndarray:
    """Return paths on the sphere with ARCS points a step, along great circles."""
    if len(x) == 1:
        return x
    start, end = x[:-1, None], x[1:, None]
    angle = 2 * np.arcsin(np.minimum(np.linalg.norm(end - start, axis=-1, keepdims=True) / 2, 1.0))
    share = (np.arange(ARCS) / ARCS)[None, :, None, None]
    safe = np.where(angle > 1e-6, angle, 1.0)
    bent = (np.sin((1 - share) * safe) * start + np.sin(share * safe) * end) / np.sin(safe)
    straight = (1 - share) * start + share * end
    inner = np.where(angle > 1e-6, bent, straight).reshape(-1, *x.shape[1:])
    return np.concatenate([inner, x[-1:]])


def ball(record: Tokens) -> Places:
    """Seen from far away, the last tokens turned towards the reader; beyond three dimensions, the widest three."""
    x, share = arcs(record.trajectory), 1.0
    if x.shape[2] > 3:
        flat = x.reshape(-1, x.shape[2])
        _, values, axes = np.linalg.svd(flat, full_matrices=False)
        share = float((values[:3] ** 2).sum() / (values**2).sum())
        x = x @ axes[:3].T
    eye = x[-1].mean(axis=0) + 0.35 * np.array([0.3, -0.8, 0.5])
    eye = eye / (np.linalg.norm(eye) or 1.0)
    up = np.array([0.0, 0.0, 1.0]) if abs(eye[2]) < 0.9 else np.array([0.0, 1.0, 0.0])
    right = np.cross(up, eye)
    right /= np.linalg.norm(right)
    paths = np.stack([x @ right, x @ np.cross(eye, right)], axis=2)
    front = np.clip(0.5 + 1.5 * (x @ eye), 0.0, 1.0)
    return paths, FAINT + (1 - FAINT) * front, share


def plane(record: Tokens) -> Places:
    """The first two coordinates, or the widest two directions of more."""
    x, share = record.trajectory, 1.0
    if x.shape[2] > 2:
        flat = x.reshape(-1, x.shape[2]) - x[0].mean(axis=0)
        _, values, axes = np.linalg.svd(flat, full_matrices=False)
        share = float((values[:2] ** 2).sum() / (values**2).sum()) if values.any() else 1.0
        x = (x - x[0].mean(axis=0)) @ axes[:2].T
    return x, np.ones(x.shape[:2]), share


def line(record: Tokens) -> Places:
    """Time runs to the right."""
    x = record.trajectory[:, :, 0]
    return np.stack([np.broadcast_to(record.times[:, None], x.shape), x], axis=2), np.ones(x.shape), 1.0


def hull(x: np.ndarray) -> np.ndarray:
    """Return the corners of the hull of points in the plane, (K, 2); none if they lie on a line."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return x[ConvexHull(x).vertices]
    except (QhullError, ValueError):
        return np.empty((0, 2))


def free_angle(paths: np.ndarray) -> float:
    """Return the middle of the widest sector that no path enters, or of the least visited one."""
    angles = np.sort(np.arctan2(paths[..., 1], paths[..., 0]).ravel())
    gaps = np.diff(np.append(angles, angles[0] + 2 * np.pi))
    widest = int(np.argmax(gaps))
    return float(angles[widest] + gaps[widest] / 2)
