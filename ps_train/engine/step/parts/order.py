"""The parts that a job asks for, in their order.

    for part in parts_of(spec, update, []):
        ...

The first part is the outermost: it is the nearest to the model in `push`, and the farthest from the plain step in every
word.  The reasons of the places:

1. `PullAhead` and the parts of rates anywhere: the one has no word in common with others, the others add one factor of
   several.  `InputEnd` too: it is next to the model where others ask for the number of examples.
2. `LocalSteps` before all that computes: what others do with a gradient they do in each local step.  It takes the
   divisors of rates, since they are the inner optimizer's.
3. `Transforms` before `LossScaling`: they get gradients that are not scaled, and an overflow is found before clipping
   hides it.
4. `FollowingBatchSize` before `Sharding`, to which it gives the size; and before `Rack`, whose step it reads.
5. `PushCodec` after what computes: it encodes what is sent, which is transformed and finite.
6. `StateOfModel`, `Sums` and `Sharding` after `PushCodec`: what they send is not encoded.
7. `EventCutTable` after `Sharding`, whose partitions it marks.
8. `TableUpdates` after all that change the push or what is added on the ps.
9. `Rack` last, next to the ps: it adds up what is sent, and its operations are the ps's to all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.event_cut_table import EventCutTable
from ps_train.engine.step.parts.following import ScaledRate, following_parts, scaled_rates
from ps_train.engine.step.parts.input_end import InputEnd
from ps_train.engine.step.parts.local_steps import local_steps
from ps_train.engine.step.parts.loss_scaling import LossScaling
from ps_train.engine.step.parts.pull_ahead import pulls_ahead
from ps_train.engine.step.parts.push_codec import push_codecs
from ps_train.engine.step.parts.pushed_state import StateOfModel
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.step.parts.step_part import StepPart, StepParts
from ps_train.engine.step.parts.summed import Sums
from ps_train.engine.step.parts.table_updates import TableUpdates
from ps_train.engine.step.parts.transforms import Transforms
from ps_train.engine.step.parts.warm_up import WarmUp
from ps_train.engine.updates.gradients.transforms import transforms_of
from ps_train.engine.updates.modes.base import UpdateMode


def parts_of(spec: GraphSpec, update: UpdateMode, features: Sequence[StepPart]) -> StepParts:
    """Returns the parts of a replica's step.

    Args:
      spec: specification of the replica's graph.
      update: the update mode.
      features: the parts that the job alone does not give; they are next to the ps.
    """
    job, parts = spec.job, list[StepPart](pulls_ahead(spec))
    rates: list[WarmUp | ScaledRate] = [*([WarmUp(job.warmup_steps)] if job.warmup_steps else []), *scaled_rates(spec)]
    if job.has_local_steps:
        parts.append(local_steps(spec, update, [rate.divisor for rate in rates]))
    else:
        parts += rates
    if spec.model.ends_itself:
        parts.append(InputEnd())
    if transforms := transforms_of(job):
        parts.append(Transforms(transforms))
    if job.scales_loss:
        parts.append(LossScaling())
    parts += [*following_parts(spec, update), *push_codecs(spec, update.scaled)]
    if spec.variables.state():
        parts.append(StateOfModel(spec))
    if spec.model.sums:
        parts.append(Sums(spec.model.sums))
    if job.is_dynamic:
        parts.append(sharding := Sharding(spec))
        if job.save_event_secs:
            parts.append(EventCutTable(sharding))
    if job.rows_are_async and not (job.has_local_steps and not job.local_tables):
        parts.append(TableUpdates())
    return StepParts([*parts, *features])
