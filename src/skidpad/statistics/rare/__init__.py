"""How likely is a failure? Estimates of rare probabilities from few simulations, each with an interval that may be looked at early.

A problem is a criticality over the unit cube: 1 and more is a failure. Points are drawn evenly from where the cube is valid, so that the
probability is that of the domain they are read in. An estimator is a generator: it yields points, is sent their criticalities, and
returns an `Estimate`. It hangs on its seed and on what it is sent alone, so that a stopped one goes on by being told again.

Inside, a point is a standard normal vector, whose distribution function is the point of the cube.
"""

from skidpad.statistics.rare.estimators import estimate, estimator
from skidpad.statistics.rare.task import Batch, Estimate, Estimator, Goal, Method, Valid, bernoulli_sequence, everywhere

__all__ = ["Batch", "Estimate", "Estimator", "Goal", "Method", "Valid", "bernoulli_sequence", "estimate", "estimator", "everywhere"]
