"""The optimizers of `tf.contrib.opt`: variants of Adam and Momentum, decoupled weight decay, signs, LARS, averages.

    train = AdamWOptimizer(weight_decay=1e-4, learning_rate=1e-3).minimize(loss)

The names of slots and the equations are those of TensorFlow 1.15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import AdamTerms, adam_terms, make_variable_once, variable_once, zeros_slot
from ps_train.modeling.optimizers import counted

__all__ = [
    "AdaMaxOptimizer",
    "AdamGSOptimizer",
    "AdamWOptimizer",
    "AddSignOptimizer",
    "DecoupledWeightDecayExtension",
    "LARSOptimizer",
    "LazyAdamGSOptimizer",
    "LazyAdamOptimizer",
    "MomentumWOptimizer",
    "MovingAverageOptimizer",
    "NadamOptimizer",
    "PowerSignOptimizer",
    "extend_with_decoupled_weight_decay",
]


def _value(given: Any) -> Any:
    """Returns the value of a hyperparameter, which may be a function without arguments."""
    return given() if callable(given) else given


def _make_slots(optimizer: Any, variables: Sequence[Any], *names: str) -> None:
    for variable in variables:
        for name in names:
            zeros_slot(optimizer, variable, name)


class _ByUpdate:
    """A base of optimizers with one `_update` and one `_update_rows` for both kinds of variables.

    TensorFlow calls one method for resource variables, another for reference variables.
    """

    def _update(self, grad: Any, var: Any) -> Any:
        raise NotImplementedError

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> Any:
        raise NotImplementedError

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update(grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update(grad, var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._update_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._update_rows(grad, var, indices)


class _Adam(_ByUpdate, v1.train.AdamOptimizer):
    """An Adam in steps that subclasses change.  `has_lazy_rows`: a sparse gradient changes its own rows alone."""

    has_lazy_rows = False

    def _terms(self, dtype: Any) -> AdamTerms:
        return AdamTerms(*(tf.cast(value, dtype) for value in adam_terms(self)))

    def _change(self, terms: AdamTerms, grad: Any, m: Any, v: Any) -> Any:
        """Returns what a variable loses; `m` and `v` are the new moments."""
        rate = terms.rate * tf.sqrt(1 - terms.beta2_power) / (1 - terms.beta1_power)
        return rate * m / (tf.sqrt(v) + terms.epsilon)

    def _second(self, terms: AdamTerms, v: Any, grad: Any) -> Any:
        """Returns the new second moment."""
        return terms.beta2 * v + (1 - terms.beta2) * tf.square(grad)

    def _update(self, grad: Any, var: Any) -> Any:
        terms, m, v = self._terms(var.dtype.base_dtype), self.get_slot(var, "m"), self.get_slot(var, "v")
        m_now = v1.assign(m, terms.beta1 * m + (1 - terms.beta1) * grad)
        v_now = v1.assign(v, self._second(terms, v, grad))
        return tf.group(v1.assign_sub(var, self._change(terms, grad, m_now, v_now)), m_now, v_now)

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> Any:
        terms, m, v = self._terms(var.dtype.base_dtype), self.get_slot(var, "m"), self.get_slot(var, "v")
        if self.has_lazy_rows:
            m_rows = terms.beta1 * tf.gather(m, indices) + (1 - terms.beta1) * grad
            v_rows = self._second(terms, tf.gather(v, indices), grad)
            return tf.group(
                v1.scatter_update(m, indices, m_rows),
                v1.scatter_update(v, indices, v_rows),
                v1.scatter_sub(var, indices, self._change(terms, grad, m_rows, v_rows)),
            )
        with tf.control_dependencies([v1.assign(m, terms.beta1 * m), v1.assign(v, terms.beta2 * v)]):
            added = [
                v1.scatter_add(m, indices, (1 - terms.beta1) * grad),
                v1.scatter_add(v, indices, (1 - terms.beta2) * tf.square(grad)),
            ]
        with tf.control_dependencies(added):
            return self._step_of_rows(terms, grad, var, m, v, indices)

    def _step_of_rows(self, terms: AdamTerms, grad: Any, var: Any, m: Any, v: Any, indices: Any) -> Any:
        """Returns the update of a variable of which some rows have a gradient: all rows follow their moments."""
        return v1.assign_sub(var, self._change(terms, grad, tf.identity(m), tf.identity(v)))


class LazyAdamOptimizer(_Adam):
    """An Adam that changes only the rows of a batch, and their slots.  The arguments are those of AdamOptimizer."""

    has_lazy_rows = True

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return v1.train.AdamOptimizer._apply_dense(self, grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return v1.train.AdamOptimizer._resource_apply_dense(self, grad, var)


class NadamOptimizer(_Adam):
    """Adam with Nesterov's momentum (Dozat, 2016).  The arguments are those of AdamOptimizer."""

    def _change(self, terms: AdamTerms, grad: Any, m: Any, v: Any) -> Any:
        return super()._change(terms, grad, terms.beta1 * m + (1 - terms.beta1) * grad, v)

    def _step_of_rows(self, terms: AdamTerms, grad: Any, var: Any, m: Any, v: Any, indices: Any) -> Any:
        change = self._change(terms, grad, tf.gather(m, indices), tf.gather(v, indices))
        return v1.scatter_sub(var, indices, change)


class AdaMaxOptimizer(_Adam):
    """AdaMax (Kingma and Ba, 2015): Adam with the maximum norm.  Only the rows of a batch change.

    Args:
      learning_rate: of the updates.
      beta1: decay of the mean.
      beta2: decay of the largest gradient.
      epsilon: added to it.
      use_locking: as of every optimizer.
      name: of the operations.
    """

    has_lazy_rows = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)
        self._decay, self._locks = beta1, use_locking

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        with tf.init_scope():  # a condition has a graph of its own
            graph = v1.get_default_graph()
        return variable_once(self, "beta1_power", graph), tf.zeros([])

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        first = min(var_list, key=lambda each: each.name)
        make_variable_once(self, "beta1_power", _value(self._decay), first)
        _make_slots(self, var_list, "m", "v")

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        power, _ = self._get_beta_accumulators()
        with tf.control_dependencies(update_ops), v1.colocate_with(power):
            update = v1.assign(power, power * _value(self._decay), use_locking=self._locks)
        return tf.group(*update_ops, update, name=name_scope)

    def _change(self, terms: AdamTerms, grad: Any, m: Any, v: Any) -> Any:
        return terms.rate / (1 - terms.beta1_power) * m / (v + terms.epsilon)

    def _second(self, terms: AdamTerms, v: Any, grad: Any) -> Any:
        return tf.maximum(terms.beta2 * v, tf.abs(grad))


class AdamGSOptimizer(_Adam):
    """An Adam whose powers of beta follow the global step, and are no variables.

    Args:
      global_step: the variable of the global step; 0: the powers of the first step, always.
      learning_rate, beta1, beta2, epsilon, use_locking, name: as of AdamOptimizer.
    """

    def __init__(
        self,
        global_step: Any = 0,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)
        self._global_step, self._betas = global_step, (beta1, beta2)
        self._counts = False

    def count_updates(self) -> None:
        """Counts the updates that the slots have seen, where they may begin anew."""
        self._counts = True

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        beta1, beta2 = self._powers
        return beta1, beta2

    def _prepare(self) -> None:
        super()._prepare()
        self._number = tf.identity(self._made if self._counts else self._global_step)
        steps = tf.cast(self._number + 1, tf.float32)
        self._powers = [tf.pow(_value(beta), steps) for beta in self._betas]

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        if self._counts:
            first = min(var_list, key=lambda each: each.name)
            self._made = make_variable_once(self, "updates", np.int64(0), first)
        _make_slots(self, var_list, "m", "v")

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        if not self._counts:
            return tf.group(*update_ops, name=name_scope)
        return counted(update_ops, self._made, self._number, name_scope)


class LazyAdamGSOptimizer(AdamGSOptimizer):
    """An AdamGSOptimizer that changes only the rows of a batch, and only their slots."""

    has_lazy_rows = True


class DecoupledWeightDecayExtension:
    """A base of optimizers with decoupled weight decay (Loshchilov and Hutter, 2017).

    A variable loses `weight_decay` of itself before each update.  Of a sparse gradient, only the rows do.

    Args:
      weight_decay: the part, a number, tensor or function without arguments.
      *args, **kwargs: the arguments of the optimizer.
    """

    def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
        self._decay_var_list: set[int] | None = None
        self._weight_decay = weight_decay
        self._weight_decay_tensor: Any = None
        super().__init__(*args, **kwargs)

    def minimize(self, loss: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """Returns the operation that minimizes a loss; `decay_var_list` has the variables to decay, None for all."""
        self._choose(decay_var_list)
        return super().minimize(loss, *args, **kwargs)  # type: ignore[misc]  # of the optimizer beside it

    def apply_gradients(self, grads_and_vars: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """Returns the operation that applies gradients; `decay_var_list` has the variables to decay, None for all."""
        self._choose(decay_var_list)
        return super().apply_gradients(grads_and_vars, *args, **kwargs)  # type: ignore[misc]

    def _choose(self, variables: Any) -> None:
        if variables is not None:
            self._decay_var_list = {id(variable) for variable in variables}

    def _prepare(self) -> None:
        self._weight_decay_tensor = tf.convert_to_tensor(_value(self._weight_decay), name="weight_decay")
        super()._prepare()  # type: ignore[misc]

    def _decayed(self, var: Any, indices: Any = None) -> list[Any]:
        """Returns the operations that decay a variable, or rows of it."""
        if self._decay_var_list is not None and id(var) not in self._decay_var_list:
            return []
        decay = tf.cast(self._weight_decay_tensor, var.dtype.base_dtype)
        if indices is None:
            return [v1.assign_sub(var, decay * var, use_locking=True).op]
        return [tf.group(v1.scatter_sub(var, indices, decay * tf.gather(var, indices)))]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decayed(var)):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decayed(var)):
            return super()._resource_apply_dense(grad, var)  # type: ignore[misc]

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decayed(var, grad.indices)):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        with tf.control_dependencies(self._decayed(var, indices)):
            return super()._resource_apply_sparse(grad, var, indices)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """Returns a class of optimizers with decoupled weight decay, whose first argument is `weight_decay`.

    Args:
      base_optimizer: a class of optimizers of `tf.train`.
    """

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        """The optimizer with decoupled weight decay."""

    return OptimizerWithDecoupledWeightDecay


class MomentumWOptimizer(DecoupledWeightDecayExtension, v1.train.MomentumOptimizer):
    """Momentum with decoupled weight decay.

    Args:
      weight_decay: the part that a variable loses before an update.
      learning_rate, momentum, use_locking, name, use_nesterov: as of MomentumOptimizer.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)


class AdamWOptimizer(DecoupledWeightDecayExtension, v1.train.AdamOptimizer):
    """Adam with decoupled weight decay.

    Args:
      weight_decay: the part that a variable loses before an update.
      learning_rate, beta1, beta2, epsilon, use_locking, name: as of AdamOptimizer.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


class _SignOptimizer(_ByUpdate, v1.train.Optimizer):
    """An optimizer whose step depends on whether gradient and momentum have one sign (Bello and others, 2017)."""

    def __init__(
        self, learning_rate: Any, beta: float, sign_decay_fn: Callable[..., Any] | None, use_locking: bool, name: str
    ) -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta, self._sign_decay_fn = learning_rate, beta, sign_decay_fn
        self._sign_decay_t: Any = None
        self._locks = use_locking

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns the operation that applies gradients; a `sign_decay_fn` needs the global step."""
        if self._sign_decay_fn is not None:
            self._sign_decay_t = tf.convert_to_tensor(self._sign_decay_fn(global_step), name="sign_decay")
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        _make_slots(self, var_list, "m")

    def _prepare(self) -> None:
        self._lr_t = tf.convert_to_tensor(_value(self._lr), name="learning_rate")

    def _scale(self, agreement: Any, dtype: Any) -> Any:
        """Returns the factor of the gradient; `agreement` is 1 where the signs are equal, else -1 or 0."""
        raise NotImplementedError

    def _update(self, grad: Any, var: Any) -> Any:
        dtype, m = var.dtype.base_dtype, self.get_slot(var, "m")
        m_now = v1.assign(m, self._beta * m + (1 - self._beta) * grad)
        agreement = tf.sign(grad) * tf.sign(m_now)
        if self._sign_decay_t is not None:
            agreement *= tf.cast(self._sign_decay_t, dtype)
        change = tf.cast(self._lr_t, dtype) * self._scale(agreement, dtype) * grad
        return tf.group(v1.assign_sub(var, change, use_locking=self._locks), m_now)

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> Any:
        raise NotImplementedError(
            f"tf.contrib.opt.{type(self).__name__} takes no sparse gradients: use LazyAdam for rows."
        )


class AddSignOptimizer(_SignOptimizer):
    """AddSign: the gradient times `alpha` plus the agreement of the signs.

    Args:
      learning_rate: of the updates.
      alpha: the factor without agreement.
      beta: decay of the mean gradient.
      sign_decay_fn: factor of the agreement, a function of the global step; None: 1.
      use_locking: as of every optimizer.
      name: of the operations.
    """

    def __init__(
        self,
        learning_rate: Any = 0.1,
        alpha: float = 1.0,
        beta: float = 0.9,
        sign_decay_fn: Callable[..., Any] | None = None,
        use_locking: bool = False,
        name: str = "AddSignOptimizer",
    ) -> None:
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._alpha = alpha

    def _scale(self, agreement: Any, dtype: Any) -> Any:
        return tf.cast(self._alpha, dtype) + agreement


class PowerSignOptimizer(_SignOptimizer):
    """PowerSign: the gradient times `base` to the power of the agreement of the signs.

    Args:
      learning_rate: of the updates.
      base: of the power.
      beta: decay of the mean gradient.
      sign_decay_fn: factor of the agreement, a function of the global step; None: 1.
      use_locking: as of every optimizer.
      name: of the operations.
    """

    def __init__(
        self,
        learning_rate: Any = 0.1,
        base: float = math.e,
        beta: float = 0.9,
        sign_decay_fn: Callable[..., Any] | None = None,
        use_locking: bool = False,
        name: str = "PowerSignOptimizer",
    ) -> None:
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._base = base

    def _scale(self, agreement: Any, dtype: Any) -> Any:
        return tf.exp(tf.cast(math.log(self._base), dtype) * agreement)


class LARSOptimizer(_ByUpdate, v1.train.Optimizer):
    """Momentum whose rate follows the norms of a variable and of its gradient (You and others, 2017).

    Args:
      learning_rate: of the updates.
      momentum: decay of the momentum.
      weight_decay: the part of the variable that is added to the gradient.
      eeta: factor of the norms.
      epsilon: added to the divisor.
      name: of the operations.
      skip_list: parts of the names of variables that train with plain momentum, as biases.
      use_nesterov: whether the step looks ahead.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Sequence[str] | None = None,
        use_nesterov: bool = False,
    ) -> None:
        if momentum < 0.0:
            raise ValueError(f"momentum={momentum} of LARSOptimizer is negative: use 0 or more")
        super().__init__(False, name)
        self._learning_rate, self._momentum, self._weight_decay = learning_rate, momentum, weight_decay
        self._eeta, self._epsilon, self._skip_list = eeta, epsilon, skip_list
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        _make_slots(self, var_list, "momentum")

    def _prepare(self) -> None:
        self._rate_tensor = tf.convert_to_tensor(_value(self._learning_rate), name="learning_rate")

    def _update(self, grad: Any, var: Any) -> Any:
        dtype, slot = var.dtype.base_dtype, self.get_slot(var, "momentum")
        rate = tf.cast(self._rate_tensor, dtype)
        if self._skip_list is None or not any(part in var.name for part in self._skip_list):
            norm, of_gradient = tf.norm(var, ord=2), tf.norm(grad, ord=2)
            trust = self._eeta * norm / (of_gradient + self._weight_decay * norm + self._epsilon)
            rate *= tf.where((norm > 0) & (of_gradient > 0), trust, tf.ones_like(norm))
            grad = grad + self._weight_decay * var
        scaled = rate * grad
        slot_now = v1.assign(slot, self._momentum * slot + scaled)
        change = scaled + self._momentum * slot_now if self._use_nesterov else slot_now
        return tf.group(v1.assign_sub(var, change), slot_now)

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._update(tf.convert_to_tensor(tf.IndexedSlices(grad, indices, var.shape)), var)


class MovingAverageOptimizer(v1.train.Optimizer):
    """An optimizer that keeps moving averages of the variables that another one trains.

    Args:
      opt: the other one.
      num_updates: the number of updates so far, which lowers the decay at the begin; None: it is not lowered.
      sequential_update: whether the averages wait for the update of the variables.
    """

    def __init__(
        self, opt: Any, average_decay: Any = 0.9999, num_updates: Any = None, sequential_update: bool = True
    ) -> None:
        super().__init__(False, "MovingAverageOptimizer")
        self._optimizer, self._sequential_update = opt, sequential_update
        self._ema = v1.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._averages: dict[str, Any] = {}

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Returns (gradient, variable) pairs, as the other optimizer does."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Returns the operation that applies gradients and moves the averages."""
        pairs = list(grads_and_vars)
        update = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([update] if self._sequential_update else []):
            moved = self._ema.apply(variables)
        self._averages.update({variable.op.name: (variable, self._ema.average(variable)) for variable in variables})
        return tf.group(update, moved, name="train_with_avg")

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a slot of the other optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the names of the other optimizer's slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """Returns the variables of the other optimizer."""
        return self._optimizer.variables()

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> Any:
        """Returns a Saver that saves each average under its variable's name, and the variable under the average's.

        Args:
          var_list: the variables to save, a list or a dict by name; None: all.
          name: of the operations.
          **kwargs: further arguments of `tf.train.Saver`.

        Raises:
          RuntimeError: no gradients were applied before.
        """
        if not self._averages:
            raise RuntimeError("swapping_saver needs the averages: call apply_gradients or minimize before it")
        given = v1.global_variables() if var_list is None else var_list
        names = given if isinstance(given, dict) else {variable.op.name: variable for variable in given}
        swaps = {average.op.name: variable for variable, average in self._averages.values()}
        swaps |= {variable.op.name: average for variable, average in self._averages.values()}
        chosen = {key: swaps.get(variable.op.name, variable) for key, variable in names.items()}
        return v1.train.Saver(chosen, name=name, **kwargs)
