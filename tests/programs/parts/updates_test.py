import unittest

import torch
from fakes import FakeSession

from lockstep._reductions import Reductions
from lockstep._updates import Updates


class UpdatesTest(unittest.TestCase):
    """A model of one weight, and its optimizer, which tells of its updates as torch's hooks do."""

    def setUp(self):
        self.session = FakeSession()
        self.updates = Updates(self.session, Reductions(self.session), self.session.turns)
        self.model = torch.nn.Linear(1, 1, bias=False)
        self.session.models.adopt(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
        self.session.optimizers.meet(self.optimizer)

    def backward(self, gradient=2.0):
        self.model.weight.grad = torch.full((1, 1), gradient)

    def update(self, optimizer=None):
        optimizer = optimizer or self.optimizer
        self.updates.begins(optimizer, (optimizer,), {})
        self.updates.ends(optimizer)

    def gradients(self, step=0):
        told = self.session.recorder.steps[step]
        return [(name, value[0][0]) for channel, name, value in told if channel == "gradient"]

    def test_an_update_of_the_only_optimizer_is_a_step(self):
        for value in (2.0, 3.0):
            self.backward(value)
            self.update()
        self.assertEqual((self.gradients(0), self.gradients(1)), ([("weight", 2.0)], [("weight", 3.0)]))
        self.assertEqual((self.session.updates, self.session.recorder.ended), (2, [0]))

    def test_an_update_of_one_of_two_leaves_the_turn_open(self):
        self.session.optimizers.meet(other := torch.optim.SGD(self.model.parameters(), lr=0.1))
        self.backward()
        self.update()
        self.assertEqual((self.session.updates, self.session.step.turn_ended), (0, True))
        self.assertEqual(len(self.session.step.alive), 1)
        self.update(other)
        self.assertEqual(self.session.updates, 1)

    def test_an_optimizer_that_comes_again_ends_the_step(self):
        self.session.optimizers.meet(other := torch.optim.SGD(self.model.parameters(), lr=0.1))
        self.backward()
        for updates in (0, 2):  # the second ends the turn of the first, and is a whole one itself
            self.update()
            self.assertEqual(self.session.updates, updates)
        self.assertIsNotNone(other)

    def test_where_the_script_ends_steps_no_update_does(self):
        self.session.by_hand = True
        self.backward()
        self.update()
        self.assertEqual(self.session.updates, 0)

    def test_what_an_optimizer_calls_is_a_part_of_its_update(self):
        inner = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.backward()
        self.updates.begins(self.optimizer, (self.optimizer,), {})
        self.update(inner)
        self.assertEqual((self.session.updates, self.session.step.updated), (0, set()))
        self.updates.ends(self.optimizer)
        self.assertEqual((self.session.updates, len(self.gradients())), (1, 1))

    def test_gradients_are_told_at_each_stage_once(self):
        self.backward()
        self.updates.gradients([self.model.weight], then="unscaled ")
        self.backward(1.0)
        self.updates.gradients([self.model.weight])
        self.update()
        self.assertEqual(self.gradients(), [("weight", 2.0), ("unscaled weight", 1.0)])

    def test_each_evaluation_of_a_closure_is_told(self):
        _, kwargs = self.updates.begins(self.optimizer, (self.optimizer,), {"closure": lambda: self.backward(5.0)})
        for _ in range(2):
            kwargs["closure"]()
        self.updates.ends(self.optimizer)
        self.assertEqual(self.gradients(), [("weight", 5.0), ("weight#1", 5.0)])

    def test_an_error_in_a_closure_is_the_scripts(self):
        def fails():
            raise ValueError("planted")

        (_, observed), _ = self.updates.begins(self.optimizer, (self.optimizer, fails), {})
        with self.assertRaisesRegex(ValueError, "planted"):
            observed()
        self.assertTrue(self.session.listens())

    def test_an_update_that_a_scaler_leaves_out_is_a_step(self):
        self.backward(float("inf"))
        before = self.updates.count()
        self.updates.skipped(self.optimizer)
        self.assertTrue(self.session.step.skipped)
        self.assertNotEqual(self.updates.count(), before)

    def test_gradients_that_nobody_cleared_are_counted(self):
        self.backward()
        self.update()
        self.update()
        self.assertEqual((self.session.step.reused, self.session.step.idle_updates), (1, 0))

    def test_an_update_without_a_gradient_is_counted(self):
        self.update()
        self.assertEqual((self.session.step.idle_updates, self.gradients()), (1, []))
        self.backward()
        self.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
        self.update()
        self.assertEqual(self.session.step.idle_updates, 0)

    def test_rates_are_told_once(self):
        _, kwargs = self.updates.begins(self.optimizer, (self.optimizer,), {"closure": self.backward})
        for _ in range(2):
            kwargs["closure"]()
        self.assertEqual(self.session.step.rates, [("learning_rate", 0.5)])

    def test_muted_updates_are_counted_unless_they_move_nothing(self):
        self.session.records, self.session.is_muted = False, True
        self.update()
        self.session.is_preparing = True
        self.update()
        self.assertEqual((self.session.muted_updates, self.session.updates, self.gradients()), (1, 0, []))

    def test_an_unwanted_channel_is_not_recorded(self):
        self.session.unwanted = {"gradient"}
        self.backward()
        self.update()
        self.assertEqual((self.session.updates, self.gradients()), (1, []))


if __name__ == "__main__":
    unittest.main()
