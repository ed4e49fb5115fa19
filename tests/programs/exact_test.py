"""Recording changes no bit: weights, buffers, optimizer state and generators with and without it, after each update."""

import json
import unittest

from programs import HERE, ProgramTest, Trace, chosen_part, filled, launch, lockstep, missing, recording, write_images

#: Program, arguments, world sizes.
PROGRAMS = [
    ("ddp_tutorial", [], [1, 2, 3]),
    ("amp_clip", [], [1, 2, 3]),
    ("amp_clip", ["--dtype", "bfloat16"], [2]),
    ("iterable", [], [1, 2, 3]),
    ("single", [], [1]),
    ("gan", [], [1]),
    ("imagenet", ["{images}"], [1, 2, 3]),
    ("accelerate_cv", ["--cpu", "--data_dir", "{images}/pets", "--num_epochs", "4"], [1, 2, 3]),
    ("accelerate_cv", ["--cpu", "--data_dir", "{images}/pets", "--num_epochs", "5",
                       "--gradient_accumulation_steps", "2", "--mixed_precision", "bf16"], [2]),
    ("hf_trainer", [], [1, 2, 3]),
    ("lightning_fit", ["--devices", "{world_size}"], [1, 2, 3]),
    ("lightning_fit", ["--devices", "{world_size}", "--precision", "bf16-mixed"], [2]),
]


class ExactTest(ProgramTest):
    def bits(self, name, words, world_size, **variables):
        """What every rank computed."""
        directory = self.folder / name
        directory.mkdir()
        out = directory / "bits"
        ended = launch([HERE / "probe.py", out, *words], world_size, directory, **variables)
        self.assertEqual(ended.exit_codes, [0] * world_size, ended)
        self.assertNotIn("lockstep:", ended.err)
        return [json.loads((directory / f"bits.{rank}.json").read_text()) for rank in range(world_size)]

    def assert_exact(self, program, arguments, world_size):
        if missing(program):
            self.skipTest(f"{program} needs {', '.join(missing(program))}")
        images = self.folder / "images"
        if "{images}" in "".join(arguments):
            write_images(images)
        words = [HERE / program / "train.py", *filled(arguments, images=images, world_size=world_size)]
        plain = self.bits("plain", words, world_size)
        recorded = self.bits("recorded", words, world_size, **recording(self.folder / "run"))
        for rank in range(world_size):
            self.assertGreaterEqual(len(plain[rank]["steps"]), 20)
            self.assertEqual(plain[rank]["steps"], recorded[rank]["steps"])
            self.assertEqual(plain[rank]["final"], recorded[rank]["final"])
            self.assertTrue(Trace(self.folder / "run", rank).is_whole)
        shown = lockstep("show", self.folder / "run")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("complete", shown.stdout.splitlines()[-1])

    def assert_plant_is_found(self, plant):
        words = [HERE / "ddp_tutorial/train.py", "--epochs", "2"]
        plain = self.bits("plain", words, 1)
        planted = self.bits("planted", words, 1, **recording(self.folder / "run", PROBE_PLANT=plant))
        self.assertNotEqual(plain[0]["steps"], planted[0]["steps"])

    def test_a_recorder_that_draws_a_number_is_found(self):
        self.assert_plant_is_found("draw")

    def test_a_recorder_that_changes_a_bit_is_found(self):
        self.assert_plant_is_found("bit")


def add_programs():
    """Those that LOCKSTEP_TEST_PART ("2/6") chooses; without it all."""
    cases = [(program, words, size) for program, words, world_sizes in PROGRAMS for size in world_sizes]
    for program, arguments, world_size in cases[chosen_part(most=6)]:
        def test(self, program=program, arguments=arguments, world_size=world_size):
            self.assert_exact(program, arguments, world_size)
        plain = [word.lstrip("-") for word in arguments if "{" not in word]
        name = "_".join([program, *plain, "on", str(world_size)])
        setattr(ExactTest, "test_" + name, test)


add_programs()

if __name__ == "__main__":
    unittest.main(verbosity=2)
