"""Positional encodings from posencd, as numpy arrays.

    import posenc
    with posenc.Client() as client:
        table = client.sinusoidal(64, 128)["table"]
"""

from ._version import __version__
from .client import Client
from .errors import (
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    IntegrityError,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    NoConvergence,
    NotFound,
    PermissionDenied,
    PosencError,
    RateLimited,
    Unauthenticated,
    Unavailable,
    VersionSkewWarning,
    Violation,
)
from .request import Graph
from .result import Result

__all__ = [
    "Client",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Graph",
    "IntegrityError",
    "InternalError",
    "InvalidArgument",
    "LimitExceeded",
    "NoConvergence",
    "NotFound",
    "PermissionDenied",
    "PosencError",
    "RateLimited",
    "Result",
    "Unauthenticated",
    "Unavailable",
    "VersionSkewWarning",
    "Violation",
    "__version__",
]
