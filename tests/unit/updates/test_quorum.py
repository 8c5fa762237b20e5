"""Rules of a round, as pure functions; hypothesis plays rounds against a model in plain Python."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ps_train.updates.bounded import ReplicaClocks
from ps_train.updates.quorum import JOINING, LEFT, MEMBER, UNKNOWN, UNWANTED, WANTED, FollowerRoundState, RoundState
from ps_train.updates.token_gate import NEVER


def vector(*values):
    return tf.constant(values, tf.int64)


def listed(state):
    return [value.numpy().tolist() for value in dataclasses.astuple(state)]


def me(index, count=3):
    return tf.constant(np.arange(count) == index)


def visit(roll, index, backups=0, in_time=True, is_open=True):
    after, over = roll.visit(me(index), tf.constant(in_time), tf.constant(is_open), backups)
    return listed(after), bool(over)


class TestRoll:
    def test_a_round_is_complete_when_the_last_member_arrives(self):
        assert visit(RoundState(vector(1, 1, 1), vector(1, 0, 1)), 1) == ([[1, 1, 1], [1, 1, 1]], True)
        assert visit(RoundState(vector(1, 1, 1), vector(1, 0, 0)), 1) == ([[1, 1, 1], [1, 1, 0]], False)

    def test_backups_need_not_arrive(self):
        assert visit(RoundState(vector(1, 1, 1), vector(1, 0, 0)), 1, backups=1)[1]
        assert not visit(RoundState(vector(1, 1, 1), vector(0, 0, 0)), 1, backups=1)[1]

    def test_who_is_late_completes_nothing(self):
        assert visit(RoundState(vector(1, 1, 1), vector(1, 0, 0)), 1, backups=2, in_time=False) == (
            [[1, 1, 1], [1, 0, 0]],
            False,
        )

    def test_who_was_gone_is_coming_and_not_waited_for(self):
        after, over = visit(RoundState(vector(MEMBER, LEFT, MEMBER), vector(0, 0, 0)), 1, in_time=False)
        assert (after[0], over) == ([MEMBER, JOINING, MEMBER], False)
        assert visit(RoundState(vector(MEMBER, JOINING, MEMBER), vector(0, 0, 1)), 0)[1]

    def test_who_comes_when_nobody_is_there_is_a_member_at_once(self):
        assert visit(RoundState(vector(LEFT, LEFT, LEFT), vector(0, 0, 0)), 1, in_time=False)[0][0] == [
            LEFT,
            MEMBER,
            LEFT,
        ]

    def test_nobody_comes_when_all_rounds_are_made(self):
        after, _ = visit(RoundState(vector(MEMBER, LEFT, MEMBER), vector(0, 0, 0)), 1, in_time=False, is_open=False)
        assert after[0] == [MEMBER, LEFT, MEMBER]

    def test_the_next_round_has_those_that_were_coming_and_nobody_has_arrived(self):
        roll = RoundState(vector(MEMBER, JOINING, LEFT), vector(1, 0, 1))
        assert listed(roll.next_if(tf.constant(True))) == [[MEMBER, MEMBER, LEFT], [0, 0, 0]]
        assert listed(roll.next_if(tf.constant(False))) == [[MEMBER, JOINING, LEFT], [1, 0, 1]]

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
        roll = RoundState(vector(1, 1, 1), vector(0, 0, 0))
        for kind, index in events:
            if kind == "push":
                in_time = index in live and index not in there
                roll, over = roll.visit(me(index), tf.constant(in_time), tf.constant(True), backups)
                if in_time:
                    there.add(index)
                elif index not in live | coming:
                    (coming if live else live).add(index)
                expected = in_time and len(live - there) <= backups
            else:
                roll, complete, given_up = roll.leave(me(index), backups)
                over = complete | given_up
                live.discard(index), coming.discard(index)
                expected = (bool(there) and len(live - there) <= backups) or bool(not live and coming)
            assert bool(over) == expected
            roll = roll.next_if(over)
            if expected:
                live, coming, there = live | coming, set(), set()
            standing = [MEMBER if i in live else JOINING if i in coming else LEFT for i in range(3)]
            assert listed(roll) == [standing, [int(i in there) for i in range(3)]]

    def test_those_are_awaited_that_have_yet_to_arrive_if_anybody_has(self):
        assert RoundState(vector(MEMBER, MEMBER, LEFT), vector(1, 0, 0)).awaited().numpy().tolist() == [
            False,
            True,
            False,
        ]
        assert not RoundState(vector(MEMBER, MEMBER, LEFT), vector(0, 0, 0)).awaited().numpy().any()


class TestTold:
    NOTHING = vector(UNKNOWN, UNKNOWN, UNKNOWN)

    def test_it_waits_until_it_is_told_who_belongs_to_the_round(self):
        told = FollowerRoundState(vector(1, 1, 1), vector(1, 1, 0), self.NOTHING)
        after, over = told.visit(me(2), tf.constant(True), self.NOTHING)
        assert (listed(after)[1], bool(over)) == ([1, 1, 1], False)
        assert bool(after.visit(me(0), tf.constant(False), vector(WANTED, WANTED, WANTED))[1])

    def test_it_waits_for_those_that_are_wanted_and_for_no_others(self):
        told = FollowerRoundState(vector(1, 1, 1), vector(1, 0, 0), vector(WANTED, WANTED, UNWANTED))
        assert not bool(told.visit(me(2), tf.constant(False), self.NOTHING)[1])
        assert bool(told.visit(me(1), tf.constant(True), self.NOTHING)[1])

    def test_one_that_is_wanted_but_has_left_is_not_waited_for(self):
        told = FollowerRoundState(vector(1, 1, 1), vector(1, 0, 0), vector(WANTED, WANTED, UNWANTED))
        after, over = told.leave(me(1), self.NOTHING)
        assert bool(over) and listed(after)[0] == [1, 0, 1]
        assert listed(after.next_if(tf.constant(True))) == [[1, 0, 1], [0, 0, 0], [UNKNOWN] * 3]

    def test_one_that_has_left_before_is_not_waited_for_when_it_turns_out_that_he_was_wanted(self):
        told = FollowerRoundState(vector(1, 0, 1), vector(1, 0, 0), self.NOTHING)
        assert bool(told.leave(me(1), vector(WANTED, WANTED, UNWANTED))[1])

    def test_one_that_has_come_again_is_present(self):
        told = FollowerRoundState(vector(1, 0, 1), vector(0, 0, 0), self.NOTHING)
        assert listed(told.visit(me(1), tf.constant(False), self.NOTHING)[0])[0] == [1, 1, 1]


class TestClocks:
    def test_the_slowest_is_looked_for_among_the_living(self):
        assert ReplicaClocks(vector(1, 0, 1), vector(5, 2, 7)).slowest().numpy() == 5
        assert ReplicaClocks(vector(0, 0, 0), vector(5, 2, 7)).slowest().numpy() == NEVER

    def test_a_step_is_counted(self):
        assert listed(ReplicaClocks(vector(1, 1, 1), vector(5, 2, 7)).visit(me(1))) == [[1, 1, 1], [5, 3, 7]]

    def test_who_comes_back_begins_beside_the_slowest(self):
        assert listed(ReplicaClocks(vector(1, 0, 1), vector(5, 2, 7)).visit(me(1))) == [[1, 1, 1], [5, 5, 7]]
        assert listed(ReplicaClocks(vector(0, 0, 0), vector(5, 2, 7)).visit(me(1))) == [[0, 1, 0], [5, 7, 7]]

    def test_who_leaves_keeps_its_count_but_holds_nobody_back(self):
        after = ReplicaClocks(vector(1, 1, 1), vector(5, 2, 7)).leave(me(1))
        assert listed(after) == [[1, 0, 1], [5, 2, 7]] and after.slowest().numpy() == 5

    def test_the_slowest_are_awaited_if_anybody_is_too_far_ahead_of_them(self):
        clocks = ReplicaClocks(vector(1, 1, 1), vector(5, 2, 2))
        assert clocks.awaited(lead=2).numpy().tolist() == [False, True, True]
        assert not clocks.awaited(lead=3).numpy().any()
