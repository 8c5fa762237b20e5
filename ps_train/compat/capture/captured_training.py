"""The tasks of an Estimator program on the engine: chief, worker and ps.

step = train(program)           # in a process of the chief or of a worker; returns when the job is done
serve(config)                   # in a process of a ps
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import sys
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base import gc_control, malloc
from ps_train.base.console import Console, ConsoleHandler
from ps_train.base.errors import (
    EXIT_DONE,
    DivergedError,
    JobFailedError,
    LostTaskError,
    ModelError,
    UnreachableError,
    exit_code_of_signal,
)
from ps_train.base.user_code import UserCodeError, describe
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership.connect import connect_all_ps
from ps_train.cluster.membership.records import OUTCOME, Outcome, OutcomeKind
from ps_train.compat.capture.batches import batched_input
from ps_train.compat.capture.captured_model import CapturedModel
from ps_train.compat.capture.estimator_program import TRAIN, CaptureError, NanLossError, Program
from ps_train.compat.capture.job_of_config import cluster_job, job_of, task_of, trains_in_cluster
from ps_train.compat.capture.local_cluster import LocalConfig, local_ps
from ps_train.compat.capture.sessions import estimator_graph, in_one_piece
from ps_train.compat.capture.survey import Survey, survey_program
from ps_train.compat.capture.tensor_shapes import in_form_of_now, tensor_shapes
from ps_train.config.job import Job, Task
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.engine.checkpoint.files import saved_step
from ps_train.engine.run_directory.run_checkpoints import run_checkpoints
from ps_train.engine.variables.trace import warn_of_gradients
from ps_train.training.joining.prepare import BuiltStep, Prepared, prepare, prepare_known
from ps_train.training.tasks import ps, worker

log = logging.getLogger(__name__)


def write_initial_checkpoint(program: Program) -> str:
    """Writes the initial values of a program's variables into its model directory, as step 0; returns the path."""
    with estimator_graph(program.config):
        batches = training_batches(batched_input(program.input_fn), WHOLE, 1, epochs=1, shuffle_buffer=0)
        scope = v1.get_variable_scope()
        with v1.variable_scope(scope, custom_getter=in_one_piece, auxiliary_name_scope=False):
            spec = program.model_fn(batches.features.features, batches.features.labels, TRAIN)
        if program.warm_start is not None:
            v1.train.warm_start(*program.warm_start)
        saver = v1.train.Saver(v1.global_variables(), max_to_keep=None)
        scaffold = (spec.scaffold or v1.train.Scaffold()).finalize()
        with v1.Session() as session:
            session.run(scaffold.init_op, scaffold.init_feed_dict)
            session.run(scaffold.local_init_op)
            if scaffold.init_fn is not None:
                scaffold.init_fn(session)
            os.makedirs(program.model_dir, exist_ok=True)
            return str(saver.save(session, os.path.join(program.model_dir, "model.ckpt"), global_step=0))


_TELL_SECS = 20.0
"""Seconds for which a chief with nothing to train waits for ps that may be starting."""


def train(program: Program) -> int:
    """Trains as the task of the program's config; returns the global step of the last checkpoint.

    A program without a cluster trains with a ps and a worker inside of this process.

    Raises:
      CaptureError: the engine cannot do what the program does; nothing has been started.
      PsTrainError: the training failed.
      Exception: the one that a hook or listener of the program raised.
      SystemExit: a signal stopped the job; its last checkpoint is written.
    """
    model_fn, input_fn = in_form_of_now(program.model_fn), in_form_of_now(program.input_fn)
    program = dataclasses.replace(program, model_fn=model_fn, input_fn=input_fn)
    malloc.tune_malloc(os.environ)
    with tensor_shapes(of_numbers=True), gc_control.suspended():
        if trains_in_cluster(program.config):
            return _train(program, contextlib.nullcontext())
        own = LocalConfig(program.config)
        try:
            return _train(dataclasses.replace(program, config=own), local_ps(own, _console()))
        finally:
            own.release()


def _train(program: Program, servers: contextlib.AbstractContextManager[None]) -> int:
    """Trains while `servers` are there, which begin when all is prepared that may fail by the program's own fault."""
    survey = survey_program(program)
    job = job_of(program.config, program.model_dir, program.max_steps, survey)
    task = task_of(program.config)
    is_chief = task == Cluster.of(job).chief
    given = _prepared_as_surveyed(program, survey, job, task)
    if given is None:
        given = _prepared(CapturedModel(program, survey, is_chief), job, task), None
    if is_chief and survey.has_initial_values and not run_checkpoints(program.model_dir):
        write_initial_checkpoint(program)
    raised: BaseException | None = None
    try:
        with servers:
            _end_with(worker.run(job, task, _console(), given))
    except UserCodeError as error:
        raised = error.__cause__
    except CaptureError as error:  # the tasks have begun: nothing else can begin in their place
        raise ModelError(str(error)) from None
    except DivergedError as error:
        raise NanLossError(str(error)) from None
    if raised is not None:
        raise raised  # the program's own exception, as in TensorFlow; its causes are left as they are
    return saved_step(program.model_dir)


def _prepared_as_surveyed(
    program: Program, survey: Survey, job: Job, task: Task
) -> tuple[Prepared, BuiltStep | None] | None:
    """Returns the task and the graph of its step, for which the survey has found the variables; None if a trace must.

    A model_fn that uses values in other ways than variables fails here.  The trace then says why.
    """
    if survey.variables is None:
        return None
    model = CapturedModel(program, survey, task == Cluster.of(job).chief)
    try:
        known = prepare_known(job, task, model, survey.variables)
        model.check_made(survey.variables)
    except Exception as error:
        log.debug("the model is traced, since its step cannot be built as surveyed: %s", describe(error))
        return None
    warn_of_gradients(survey.variables)
    return known


def _prepared(model: CapturedModel, job: Job, task: Task) -> Prepared:
    """Builds the model once as the engine builds it: with values in place of variables.

    Raises:
      CaptureError: that is not possible, although TensorFlow has built it for the survey.
    """
    try:
        return prepare(job, task, model)
    except CaptureError:
        raise
    except Exception as error:
        raise CaptureError(f"it cannot be built on the engine of ps_train: {describe(error)}") from error


def tell_end(config: Any) -> None:
    """Tells every ps, as the chief, that the job is done; a ps that does not answer soon is left alone."""
    job, task = cluster_job(config), task_of(config)
    with contextlib.suppress(UnreachableError, LostTaskError):
        for store in connect_all_ps(ClusterResolver(job), task, job.shared_fields(), _TELL_SECS):
            store.compare_and_set(OUTCOME, "", Outcome(OutcomeKind.DONE, by=str(task)).to_json())


def serve(config: Any) -> None:
    """Serves as the ps of the config until the job is over.

    Raises:
      PsTrainError: the job failed.
      SystemExit: a signal stopped the job.
    """
    malloc.tune_malloc(os.environ)
    _end_with(ps.run(cluster_job(config), task_of(config), _console()))


def _end_with(code: int) -> None:
    if code > exit_code_of_signal(0):
        sys.exit(code)
    if code != EXIT_DONE:
        raise JobFailedError(f"the job failed with exit code {code}.")


def _console() -> Console:
    """Returns the console of this process, to which the package's log goes unless the program has set up logging."""
    console, logger = Console(sys.stdout, sys.stderr), logging.getLogger("ps_train")
    if not logger.hasHandlers():
        logger.addHandler(ConsoleHandler(console, "ps_train: "))
        logger.setLevel(logging.INFO)
    return console
