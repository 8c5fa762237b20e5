"""Rules of a round, as pure functions; hypothesis plays rounds against a model in plain Python."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ps_train.engine.updates.modes.quorum import (
    JOINING,
    LEFT,
    MEMBER,
    UNKNOWN,
    UNWANTED,
    WANTED,
    FollowerRoundState,
    RoundState,
)


def vector(*values):
    return tf.constant(values, tf.int64)


def listed(state):
    return [value.numpy().tolist() for value in dataclasses.astuple(state)]


def me(index, count=3):
    return tf.constant(np.arange(count) == index)


def visit(state, index, backups=0, in_time=True, is_open=True):
    after, over = state.visit(me(index), tf.constant(in_time), tf.constant(is_open), backups)
    return listed(after), bool(over)


class TestRoundState:
    def test_a_round_is_complete_when_the_last_member_arrives(self):
        assert visit(RoundState(vector(1, 1, 1), vector(1, 0, 1)), 1) == ([[1, 1, 1], [1, 1, 1]], True)
        assert visit(RoundState(vector(1, 1, 1), vector(1, 0, 0)), 1) == ([[1, 1, 1], [1, 1, 0]], False)

    def test_backups_need_not_arrive(self):
        assert visit(RoundState(vector(1, 1, 1), vector(1, 0, 0)), 1, backups=1)[1]
        assert not visit(RoundState(vector(1, 1, 1), vector(0, 0, 0)), 1, backups=1)[1]

    def test_a_late_replica_completes_nothing(self):
        assert visit(RoundState(vector(1, 1, 1), vector(1, 0, 0)), 1, backups=2, in_time=False) == (
            [[1, 1, 1], [1, 0, 0]],
            False,
        )

    def test_a_replica_that_had_left_is_joining_and_not_waited_for(self):
        after, over = visit(RoundState(vector(MEMBER, LEFT, MEMBER), vector(0, 0, 0)), 1, in_time=False)
        assert (after[0], over) == ([MEMBER, JOINING, MEMBER], False)
        assert visit(RoundState(vector(MEMBER, JOINING, MEMBER), vector(0, 0, 1)), 0)[1]

    def test_a_replica_that_joins_when_none_is_there_is_a_member_at_once(self):
        assert visit(RoundState(vector(LEFT, LEFT, LEFT), vector(0, 0, 0)), 1, in_time=False)[0][0] == [
            LEFT,
            MEMBER,
            LEFT,
        ]

    def test_no_replica_joins_when_all_rounds_are_made(self):
        after, _ = visit(RoundState(vector(MEMBER, LEFT, MEMBER), vector(0, 0, 0)), 1, in_time=False, is_open=False)
        assert after[0] == [MEMBER, LEFT, MEMBER]

    def test_the_next_round_has_those_that_were_joining_and_none_has_arrived(self):
        state = RoundState(vector(MEMBER, JOINING, LEFT), vector(1, 0, 1))
        assert listed(state.next_if(tf.constant(True))) == [[MEMBER, MEMBER, LEFT], [0, 0, 0]]
        assert listed(state.next_if(tf.constant(False))) == [[MEMBER, JOINING, LEFT], [1, 0, 1]]

    @pytest.mark.parametrize(
        ("standing", "arrived", "complete", "given_up"),
        [
            ((MEMBER, MEMBER, MEMBER), (0, 1, 1), True, False),
            ((MEMBER, MEMBER, MEMBER), (0, 1, 0), False, False),
            ((MEMBER, LEFT, LEFT), (0, 0, 0), False, False),
            ((MEMBER, JOINING, LEFT), (0, 0, 0), False, True),
            ((MEMBER, LEFT, LEFT), (1, 0, 0), True, False),
            ((LEFT, JOINING, MEMBER), (0, 0, 0), False, False),
        ],
    )
    def test_when_one_leaves_the_round_is_complete_or_given_up_or_goes_on(self, standing, arrived, complete, given_up):
        after, *found = RoundState(vector(*standing), vector(*arrived)).leave(me(0), 0)
        assert after.membership.numpy()[0] == LEFT and after.arrived.numpy().tolist() == list(arrived)
        assert [bool(one) for one in found] == [complete, given_up]

    @given(st.lists(st.tuples(st.sampled_from(["push", "leave"]), st.integers(0, 2)), max_size=25), st.integers(0, 2))
    def test_whatever_happens_a_round_ends_as_soon_as_enough_members_are_in_it(self, events, backups):
        live, coming, there = {0, 1, 2}, set(), set()
        state = RoundState(vector(1, 1, 1), vector(0, 0, 0))
        for kind, index in events:
            if kind == "push":
                in_time = index in live and index not in there
                state, over = state.visit(me(index), tf.constant(in_time), tf.constant(True), backups)
                if in_time:
                    there.add(index)
                elif index not in live | coming:
                    (coming if live else live).add(index)
                expected = in_time and len(live - there) <= backups
            else:
                state, complete, given_up = state.leave(me(index), backups)
                over = complete | given_up
                live.discard(index), coming.discard(index)
                expected = (bool(there) and len(live - there) <= backups) or bool(not live and coming)
            assert bool(over) == expected
            state = state.next_if(over)
            if expected:
                live, coming, there = live | coming, set(), set()
            standing = [MEMBER if i in live else JOINING if i in coming else LEFT for i in range(3)]
            assert listed(state) == [standing, [int(i in there) for i in range(3)]]

    def test_those_are_awaited_that_have_yet_to_arrive_if_any_has(self):
        assert RoundState(vector(MEMBER, MEMBER, LEFT), vector(1, 0, 0)).awaited().numpy().tolist() == [
            False,
            True,
            False,
        ]
        assert not RoundState(vector(MEMBER, MEMBER, LEFT), vector(0, 0, 0)).awaited().numpy().any()


class TestFollowerRoundState:
    NOTHING = vector(UNKNOWN, UNKNOWN, UNKNOWN)

    def test_it_waits_until_it_knows_the_members_of_the_round(self):
        state = FollowerRoundState(vector(1, 1, 1), vector(1, 1, 0), self.NOTHING)
        after, over = state.visit(me(2), tf.constant(True), self.NOTHING)
        assert (listed(after)[1], bool(over)) == ([1, 1, 1], False)
        assert bool(after.visit(me(0), tf.constant(False), vector(WANTED, WANTED, WANTED))[1])

    def test_it_waits_for_those_that_are_wanted_and_for_no_others(self):
        state = FollowerRoundState(vector(1, 1, 1), vector(1, 0, 0), vector(WANTED, WANTED, UNWANTED))
        assert not bool(state.visit(me(2), tf.constant(False), self.NOTHING)[1])
        assert bool(state.visit(me(1), tf.constant(True), self.NOTHING)[1])

    def test_one_that_is_wanted_but_has_left_is_not_waited_for(self):
        state = FollowerRoundState(vector(1, 1, 1), vector(1, 0, 0), vector(WANTED, WANTED, UNWANTED))
        after, over = state.leave(me(1), self.NOTHING)
        assert bool(over) and listed(after)[0] == [1, 0, 1]
        assert listed(after.next_if(tf.constant(True))) == [[1, 0, 1], [0, 0, 0], [UNKNOWN] * 3]

    def test_one_that_has_left_before_is_not_waited_for_when_it_turns_out_that_it_was_wanted(self):
        state = FollowerRoundState(vector(1, 0, 1), vector(1, 0, 0), self.NOTHING)
        assert bool(state.leave(me(1), vector(WANTED, WANTED, UNWANTED))[1])

    def test_one_that_has_come_again_is_present(self):
        state = FollowerRoundState(vector(1, 0, 1), vector(0, 0, 0), self.NOTHING)
        assert listed(state.visit(me(1), tf.constant(False), self.NOTHING)[0])[0] == [1, 1, 1]
