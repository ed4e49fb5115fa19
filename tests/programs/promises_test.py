"""What a scenario promises of schedules and samplers: rates by torch's schedules, in a program of milliseconds."""

import math
import subprocess
import unittest

import torch
from torch.optim import lr_scheduler as lr

from judged_test import JudgedTest, options
from programs import LOCKSTEP


def rates_of(steps, make, lr=0.1):
    """What torch's schedule gives its optimizer."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr, momentum=0.9)
    schedule, rates = make(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def phases(*parts):
    return {"kind": "phases", "phases": [dict(zip(("steps", "to", "curve", "from"), part)) for part in parts]}


def warmed_cosine(step):
    """Linear warm-up, then a cosine to a floor."""
    return (step + 1) / 3 if step < 3 else 0.1 + 0.45 * (1 + math.cos(math.pi * (step - 3) / 8))


#: Schedules of the field by torch, and how a scenario promises them.
SCHEDULES = {
    "linear decay": (lambda o: lr.LambdaLR(o, lambda s: s / 4 if s < 4 else (12 - s) / 8),
                     phases((4, 1, "linear", 0), (8, 0))),
    "cosine to a floor": (lambda o: lr.LambdaLR(o, warmed_cosine), phases((3, 4 / 3, "linear", 1 / 3),
                                                                        (8, 0.1, "cosine", 1))),
    "stable and decay": (lambda o: lr.LambdaLR(o, lambda s: min(s / 2, 1, 1 - math.sqrt(max(s - 8, 0) / 4))),
                         phases((2, 1, "linear", 0), (6, 1), (4, 0, "sqrt"))),
    "one cycle": (lambda o: lr.OneCycleLR(o, max_lr=0.1, total_steps=12),
                  phases((0.3 * 12 - 1, 1, "cosine", 1 / 25), (11 - (0.3 * 12 - 1), 1 / 25e4, "cosine"))),
    "sequential": (lambda o: lr.SequentialLR(o, [lr.LinearLR(o, 0.25, total_iters=4), lr.CosineAnnealingLR(o, 8)], [4]),
                   phases((4, 1, "linear", 0.25), (8, 0, "cosine"))),
    "polynomial": (lambda o: lr.PolynomialLR(o, total_iters=12, power=2.0),
                   {"kind": "phases", "phases": [{"steps": 12, "to": 0, "curve": "polynomial", "power": 2}]}),
    "exponential": (lambda o: lr.ExponentialLR(o, 0.5), phases((12, 0.5**12, "exponential"))),
    "chained": (lambda o: lr.ChainedScheduler([lr.LinearLR(o, 0.5, total_iters=4), lr.StepLR(o, 3, 0.5)]),
                {"kind": "chained", "of": [{"kind": "linear_warmup", "factor": 0.5, "warmup": 4},
                                           {"kind": "step", "every": 3, "gamma": 0.5}]}),
    "listed": (lambda o: lr.CyclicLR(o, 0.01, 0.1, step_size_up=3, cycle_momentum=False),
               {"kind": "rates", "rates": [0.01 + 0.03 * (3 - abs(3 - s % 6)) for s in range(12)]}),
}


class PromisesTest(JudgedTest):
    def promised(self, variants, code, that="ledger", **promises):
        file = self.scenario(variants, [{"that": that, "variants": [name]} for name in variants], {"--steps": 12},
                             promises={"optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9}, **promises})
        return self.judged("run", file, code=code)["checks"]

    def test_schedules_of_the_field_are_promised(self):
        """Alone: nobody needs to say who takes which sample."""
        for name, (make, schedule) in SCHEDULES.items():
            rates = rates_of(12, make)
            twice = [rates[min(2 * step, 11)] for step in range(12)]
            variants = {way: options(rates=",".join(map(repr, of)))
                        for way, of in (("right", rates), ("times", [2 * rate for rate in rates]), ("pace", twice))}
            right, *wrong = self.promised(variants, 1, schedule=schedule)
            self.assertEqual(right["status"], "agree", (name, right))
            self.assertIn("learning rates and updates alone", right["why"])
            self.assertEqual([check["status"] for check in wrong], ["divergence"] * 2, name)
            self.assertEqual(wrong[0]["cause"], "lr.scaled_wrongly", name)
            self.assertIn(wrong[1]["cause"], ("lr.schedule_rate", "unknown"), name)

    def test_a_warm_up_in_another_unit_is_named(self):
        rates = rates_of(12, lambda o: lr.LambdaLR(o, lambda s: min(s / 8, 1)))
        [found] = self.promised({"a": options(rates=",".join(map(repr, rates)))}, 1,
                                schedule=phases((4, 1, "linear", 0), (8, 1)))
        self.assertEqual(found["cause"], "lr.warmup_unit")

    def test_each_sample_once(self):
        right, wrong = self.promised({"right": {}, "wrong": options(bug="twice")}, 1, "covers", each_once=True,
                                     data={"samples": 48})
        self.assertEqual(right["status"], "agree", right)
        self.assertEqual((wrong["first_divergence"]["step"], wrong["first_divergence"]["rank"]), (1, 1))
        self.assertIn("taken 2 times, and 25 samples 0 times", wrong["first_divergence"]["actual"])

    def test_what_no_schedule_can_promise(self):
        for schedule, said in (
                ({"kind": "chained", "of": [{"kind": "plateau"}]}, "is no factor of the rate before it"),
                (phases((4, 0, "exponential")), "lead neither from 0 nor to 0"),
                ({"kind": "phases", "phases": [{"steps": 1, "to": 1, "power": 2}]}, "'power' has no effect")):
            file = self.scenario({"a": {}}, [{"that": "ledger"}], promises={"schedule": schedule})
            ended = subprocess.run([str(LOCKSTEP), "run", str(file)], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn(said, ended.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
