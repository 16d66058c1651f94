"""The paper's section 3.2 as plain functions of arrays and constants."""

from covshift.theory._bounds import Bound, generalization_bound, uniform_bound
from covshift.theory._coupling import CoupledWeights, coupled_weights
from covshift.theory._plugin import PluginBound, a_priori_bound, loss_constants, plugin_bound
from covshift.theory._rademacher import rademacher_complexity

__all__ = [
    "Bound",
    "CoupledWeights",
    "PluginBound",
    "a_priori_bound",
    "coupled_weights",
    "generalization_bound",
    "loss_constants",
    "plugin_bound",
    "rademacher_complexity",
    "uniform_bound",
]
