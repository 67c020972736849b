"""Public conformance suites: does theory, as a layer's rules state it, agree with sampled networks?"""

from deeplimits.testing.layer import check_layer
from deeplimits.testing.limit import check_limit
from deeplimits.testing.record import Check, CheckFailed, Report

__all__ = ["Check", "CheckFailed", "Report", "check_layer", "check_limit"]
