import unittest

import torch
from fakes import FakeSession


class TurnsTest(unittest.TestCase):
    """Two optimizers in turns, "d" and "g". A pass of each records a loss; an update its optimizer's name."""

    def setUp(self):
        self.session = FakeSession()
        self.turns = self.session.turns
        self.parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
        self.d, self.g = (torch.optim.SGD([parameter], lr=0.1) for parameter in self.parameters)
        for optimizer in (self.d, self.g):
            self.session.optimizers.meet(optimizer)

    def passes(self, value, follows=False):
        if follows:
            self.turns.follow()
        step = self.session.step
        step.backwards += 1
        self.session.recorder.number("loss", step.unique("loss", "local"), value)

    def updates(self, optimizer):
        self.turns.take(optimizer)
        self.session.step.updated.add(id(optimizer))
        self.session.step.turn_ended = True

    def losses(self, step):
        return [(name, value) for channel, name, value in self.session.recorder.steps[step] if channel == "loss"]

    def test_passes_between_the_updates_of_a_turn_are_its_parts(self):
        step = self.session.step
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.assertIsNot(self.session.step, step)
        self.updates(self.g)
        self.assertIs(self.session.step, step)
        self.assertEqual(self.losses(0), [("local", 1), ("local#1", 2)])
        self.assertEqual((step.backwards, step.updated), (2, {id(self.d), id(self.g)}))
        self.assertEqual((self.session.updates, self.session.recorder.ended), (0, []))

    def test_an_optimizer_that_comes_again_ends_the_step(self):
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        following = self.session.step
        self.updates(self.d)
        self.assertEqual((self.losses(0), self.losses(1)), ([("local", 1)], [("local", 2)]))
        self.assertEqual((self.session.updates, self.session.recorder.ended), (1, [0]))
        self.assertIs(self.session.step, following)
        self.assertEqual((following.backwards, following.updated), (1, {id(self.d)}))

    def test_what_is_told_at_the_end_of_a_step_is_in_it(self):
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.turns.end()
        self.assertEqual(self.session.recorder.names(0, "ledger"), ["updates"])
        self.session.recorder.number("metric", "now", 3)  # no longer held back
        self.assertEqual(self.session.recorder.steps[1], [("loss", "local", 2), ("metric", "now", 3)])

    def test_names_of_the_next_step_begin_anew(self):
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.turns.end()
        self.passes(3)
        self.assertEqual(self.losses(1), [("local", 2), ("local#1", 3)])

    def test_what_follows_is_held_back_until_it_is_known_whose_it_is(self):
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.assertEqual(self.losses(0), [("local", 1)])
        self.turns.join()
        self.assertEqual(self.losses(0), [("local", 1), ("local#1", 2)])
        self.passes(3)
        self.assertEqual(self.losses(0)[-1], ("local#2", 3))

    def test_collectives_of_the_turn_come_before_what_follows(self):
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.turns.join()
        self.assertEqual([channel for channel, _, _ in self.session.recorder.steps[0]], ["loss", "collective", "loss"])

    def test_after_an_early_end_those_of_the_turn_end_steps(self):
        self.assertEqual(self.session.optimizers.expected(), [self.d, self.g])
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.updates(self.d)
        self.assertEqual(self.session.optimizers.expected(), [self.d])

    def test_a_whole_turn_lets_nobody_lead(self):
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.updates(self.g)
        self.assertFalse(self.session.optimizers.some_lead())

    def test_the_optimizers_of_an_open_turn_are_known_while_something_follows(self):
        self.passes(1)
        self.updates(self.d)
        self.assertEqual(self.turns.updated, {id(self.d)})
        self.turns.follow()
        self.assertEqual((self.turns.updated, self.session.step.updated), ({id(self.d)}, set()))

    def test_without_an_open_turn_there_is_nothing_to_join_or_end(self):
        step = self.session.step
        self.passes(1)
        self.turns.join()
        self.turns.end()
        self.assertIs(self.session.step, step)
        self.assertEqual((self.session.updates, self.session.recorder.ended), (0, []))
        self.assertFalse(self.session.optimizers.some_lead())

    def test_a_turn_is_joined_once(self):
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.turns.join()
        self.turns.join()
        self.assertEqual(self.session.step.backwards, 2)

    def test_a_turn_ends_once(self):
        self.passes(1)
        self.updates(self.d)
        self.passes(2, follows=True)
        self.turns.end()
        self.turns.end()
        self.turns.join()
        self.assertEqual((self.session.updates, self.losses(1)), (1, [("local", 2)]))


if __name__ == "__main__":
    unittest.main()
