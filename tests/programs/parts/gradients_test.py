import unittest

import torch

from lockstep._gradients import Gradients


class GradientsTest(unittest.TestCase):
    def setUp(self):
        self.gradients = Gradients()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.all = [self.weight]

    def backward(self):
        self.gradients.backward_begins()
        (self.weight.sum() * 2).backward()
        self.gradients.backward_ends()

    def test_a_gradient_is_used_until_it_changes(self):
        self.backward()
        self.assertEqual(self.gradients.used_in(self.all), 0)
        self.gradients.used(self.all, skipped=False)
        self.assertEqual(self.gradients.used_in(self.all), 1)
        self.weight.grad.mul_(2)
        self.assertEqual(self.gradients.used_in(self.all), 0)

    def test_an_update_that_is_left_out_uses_none(self):
        self.backward()
        self.gradients.used(self.all, skipped=True)
        self.assertEqual(self.gradients.used_in(self.all), 0)

    def test_a_pass_that_adds_to_a_used_gradient_leaves_it(self):
        self.backward()
        self.gradients.used(self.all, skipped=False)
        for _ in range(2):
            self.backward()
            self.assertEqual((self.gradients.left_in(self.all), self.gradients.used_in(self.all)), (1, 0))
        self.gradients.used(self.all, skipped=False)
        self.assertEqual(self.gradients.left_in(self.all), 0)

    def test_a_cleared_gradient_is_not_left(self):
        for clear in (lambda: setattr(self.weight, "grad", None), lambda: self.weight.grad.zero_()):
            self.backward()
            self.gradients.used(self.all, skipped=False)
            clear()
            self.backward()
            self.assertEqual(self.gradients.left_in(self.all), 0)

    def test_a_pass_after_clipping_is_counted(self):
        self.backward()
        self.assertEqual((self.gradients.clipped(self.all), self.gradients.clipped_early_in(self.all)), (1, 0))
        self.backward()
        self.assertEqual(self.gradients.clipped_early_in(self.all), 1)
        self.gradients.used(self.all, skipped=False)
        self.assertEqual(self.gradients.clipped_early_in(self.all), 0)

    def test_a_pass_after_clipping_stays_counted_where_the_script_changes_the_sum(self):
        self.backward()
        self.gradients.clipped(self.all)
        self.backward()
        self.weight.grad.mul_(2)
        self.backward()
        self.assertEqual(self.gradients.clipped_early_in(self.all), 1)

    def test_a_gradient_that_was_cleared_after_clipping_is_another(self):
        for clear in (lambda: setattr(self.weight, "grad", None), lambda: self.weight.grad.zero_()):
            self.backward()
            self.gradients.clipped(self.all)
            clear()
            self.backward()
            self.assertEqual(self.gradients.clipped_early_in(self.all), 0)


if __name__ == "__main__":
    unittest.main()
