"""Mutations of what runs programs of TensorFlow 1: `programs/`, `specs/`, `estimator/`, `classic/` and `legacy/`."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

_CAPTURED = "tests/cluster/programs/test_captured_model.py"
_COUNTED = "tests/unit/programs/test_counted_step.py"
_EVALUATOR = "tests/unit/estimator/test_evaluator_loop.py"
_FLAGS = "tests/unit/legacy/test_script_flags.py"
_HYPERPARAMETERS = "tests/unit/programs/test_hyperparameters.py"
_JOB = "tests/unit/programs/test_job_of_config.py"
_MEMBERSHIP = "tests/unit/classic/test_membership.py"
_RECORDED = "tests/unit/programs/test_recorded_optimizers.py"
_SURVEY = "tests/cluster/programs/test_survey.py"
_UNFUSED = "tests/unit/programs/test_unfused_cluster.py"

MUTATIONS = [
    Mutation(
        "slots of a partitioned variable have the keys of a whole one",
        "ps_train/programs/captured_model.py",
        "if variable in self._survey.partitioned",
        "if variable in ()",
        (f"{_CAPTURED}::test_point_69_slots_of_partitioned_variables_have_the_keys_of_tensorflows_saver",),
    ),
    Mutation(
        "slots lose the scope that their optimizer was used in",
        "ps_train/programs/captured_model.py",
        'return f"{scope}{variable}/{kind}"',
        'return f"{variable}/{kind}"',
        (f"{_CAPTURED}::test_point_66_and_69_the_values_are_those_of_tensorflow",),
    ),
    Mutation(
        "workers are not told that the engine ends the job",
        "ps_train/programs/captured_model.py",
        "v1.add_to_collection(ENGINE_ENDS_JOB, True)",
        "pass",
        (f"{_CAPTURED}::test_point_85_hooks_know_that_the_engine_ends_the_job",),
    ),
    Mutation(
        "only the values of a train_op are looked at for what counts steps",
        "ps_train/programs/counted_step.py",
        "with_control=True",
        "with_control=False",
        (_COUNTED,),
    ),
    Mutation("a program may count by two", "ps_train/programs/counted_step.py", "total > 1", "total > 2", (_COUNTED,)),
    Mutation(
        "a model that counts steps itself changes the step",
        "ps_train/programs/counted_step.py",
        "tf.add(self.value(), tf.cast(delta, self.dtype)",
        "tf.add(self.value(), 2 * tf.cast(delta, self.dtype)",
        (_COUNTED,),
    ),
    Mutation(
        "a variable may be updated twice in a step",
        "ps_train/programs/recorded_optimizers.py",
        "earlier.gradients.keys() & gradients.keys()",
        "earlier.gradients.keys() & set()",
        (_RECORDED,),
    ),
    Mutation(
        "a gradient that is none is a gradient",
        "ps_train/programs/recorded_optimizers.py",
        "for gradient, variable in pairs if gradient is not None",
        "for gradient, variable in pairs",
        (_RECORDED,),
    ),
    Mutation(
        "the optimizer of a program updates its variables itself",
        "ps_train/programs/recorded_optimizers.py",
        "if self._carries_out:",
        "if not self._carries_out:",
        (_RECORDED,),
    ),
    Mutation(
        "an inherited attribute stays replaced",
        "ps_train/programs/replaced_attributes.py",
        "undo.callback(delattr, owner, name)",
        "pass",
        ("tests/unit/programs/test_replaced_attributes.py",),
    ),
    Mutation(
        "a rate of a program is that of the model's step, not of the update's",
        "ps_train/programs/hyperparameters.py",
        "setattr(own, name, _again(value, step))",
        "setattr(own, name, value)",
        (_HYPERPARAMETERS,),
    ),
    Mutation(
        "operations may run after the update",
        "ps_train/programs/survey.py",
        "if waiting.type not in _HARMLESS and not _counts_steps(waiting)",
        "if not waiting",
        (_SURVEY,),
    ),
    Mutation(
        "a variable of which all is read travels by rows",
        "ps_train/programs/survey.py",
        "if of_rows is not None and _gives_only_rows(variable)",
        "if of_rows is not None",
        (_SURVEY, _CAPTURED),
    ),
    Mutation(
        "all replicas of a SyncReplicasOptimizer are backups",
        "ps_train/programs/job_of_config.py",
        "max(0, survey.sync.total - survey.sync.to_aggregate)",
        "survey.sync.total",
        (_JOB,),
    ),
    Mutation(
        "a worker that leaves does not say so",
        "ps_train/programs/unfused_cluster.py",
        "heartbeat=number + 1, state=TaskState.LEFT",
        "heartbeat=number + 1",
        (_UNFUSED,),
    ),
    Mutation(
        "a claimed step that was not made is not given back",
        "ps_train/programs/step_claims.py",
        "step_context.session.run(self._give_back)",
        "pass",
        ("tests/unit/programs/test_step_claims.py",),
    ),
    Mutation(
        "the evaluator ends at the first failure of a chief that has not begun",
        "ps_train/estimator/evaluator_loop.py",
        "if ended is not None and not isinstance(ended, UnreachableError)",
        "if ended is not None",
        (_EVALUATOR,),
    ),
    Mutation(
        "the evaluator does not wait between two evaluations",
        "ps_train/estimator/evaluator_loop.py",
        "next_evaluation = begun + self._spec.throttle_secs",
        "next_evaluation = begun",
        (_EVALUATOR,),
    ),
    Mutation(
        "a ps ends while a worker of a script trains",
        "ps_train/classic/membership.py",
        "if len(gone) < len(come)",
        "if not gone",
        (_MEMBERSHIP,),
    ),
    Mutation(
        "a script that failed counts as gone at once",
        "ps_train/classic/membership.py",
        "State.FAILED: self._limits.restart_secs",
        "State.FAILED: 0.0",
        (_MEMBERSHIP,),
    ),
    Mutation(
        "a flag that the user has set is set again",
        "ps_train/legacy/script_flags.py",
        "if name in defined - present",
        "if name in defined",
        (_FLAGS,),
    ),
]
