import unittest

from lockstep._batches import Batch
from lockstep._step import Step

#: What a field of the step, and of the part that it absorbs, becomes.
ABSORBED = {
    "backwards": (1, 2, 3), "forwards_since_backward": (1, 2, 3), "clips": (1, 2, 3), "clipped": (4, 5, 9),
    "losses": (["a"], ["b"], ["a", "b"]), "ids": ([1], [2], [1, 2]), "told_ids": ([1], [2], [1, 2]),
    "items": ([1], [2], [1, 2]), "called": ([("x", 1)], [("y", 2)], [("x", 1), ("y", 2)]),
    "told": ({"a"}, {"b"}, {"a", "b"}), "clip_of": ({1}, {2}, {1, 2}),
    "stage": ({1: "", 2: ""}, {2: "clipped "}, {1: "", 2: "clipped "}),
    "denominators": ({"n": 1.0}, {"n": 2.0}, {"n": 2.0}), "thresholds": ({"n": 1.0}, {"m": 2.0}, {"n": 1.0, "m": 2.0}),
    "factors": ({"n": 1.0}, {"m": 2.0}, {"m": 2.0}),
}


class StepTest(unittest.TestCase):
    def test_names_are_unique_in_their_channel(self):
        step = Step()
        names = [step.unique("loss", "x") for _ in range(3)]
        self.assertEqual(names, ["x", "x#1", "x#2"])
        self.assertEqual((step.unique("loss", "y"), step.unique("input", "x")), ("y", "x"))

    def test_numbers_count_in_their_channel(self):
        step = Step()
        self.assertEqual([step.number("collective"), step.number("collective"), step.number("other")], ["0", "1", "0"])

    def test_what_follows_goes_on_with_the_names(self):
        step = Step()
        step.unique("loss", "x")
        step.number("collective")
        part = step.followed()
        self.assertEqual([part.unique("loss", "x"), part.unique("loss", "x"), part.unique("loss", "y")],
                         ["x#1", "x#2", "y"])
        self.assertEqual(part.number("collective"), "1")
        self.assertEqual(step.names, {("loss", "x"): 1, ("collective", ""): 1})

    def test_what_follows_is_named_by_what_came_before_it(self):
        step = Step()
        part = step.followed()
        step.unique("loss", "x")
        self.assertEqual(part.unique("loss", "x"), "x")

    def test_what_follows_knows_its_names_as_a_step_of_its_own(self):
        step = Step()
        step.unique("loss", "x")
        step.number("collective")
        part = step.followed()
        for _ in range(2):
            part.unique("loss", "x")
        part.unique("loss", "y")
        part.number("collective")
        self.assertEqual(part.own_names, {("loss", "x#1"): "x", ("loss", "x#2"): "x#1", ("collective", "1"): "0"})

    def test_names_go_on_after_what_followed_is_absorbed(self):
        step = Step()
        step.unique("loss", "x")
        part = step.followed()
        part.unique("loss", "x")
        part.unique("input", "i")
        step.absorb(part)
        self.assertEqual([step.unique("loss", "x"), step.unique("input", "i")], ["x#2", "i#1"])
        self.assertEqual(step.followed().unique("loss", "x"), "x#3")

    def test_all_that_follows_is_absorbed(self):
        step, part = (Step(**{name: values[side] for name, values in ABSORBED.items()}) for side in (0, 1))
        step.absorb(part)
        for name, (_, _, both) in ABSORBED.items():
            with self.subTest(name):
                self.assertEqual(getattr(step, name), both)

    def test_factors_stay_where_no_loss_follows(self):
        step = Step(factors={"n": 1.0})
        step.absorb(Step())
        self.assertEqual(step.factors, {"n": 1.0})

    def test_the_last_batch_is_known_through_turns(self):
        first, second = Batch([0], 0), Batch([1], 0)
        step = Step(batch=first, turn_ended=True)
        part = step.followed()
        self.assertIs(part.batch, first)
        part.batch = second
        step.absorb(part)
        self.assertIs(step.batch, second)

    def test_a_turn_that_absorbs_goes_on(self):
        step = Step(turn_ended=True, updated={1})
        part = step.followed()
        self.assertEqual((part.turn_ended, part.updated), (False, set()))
        step.absorb(part)
        self.assertEqual((step.turn_ended, step.updated), (False, {1}))


if __name__ == "__main__":
    unittest.main()
