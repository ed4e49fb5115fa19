import gc
import unittest

import torch

from lockstep._batches import Batch, Batches, Source, items_in, look_of, tensors_in


def tensor(*values):
    return torch.tensor(values, dtype=torch.float32)


class BatchesTest(unittest.TestCase):
    def setUp(self):
        self.batches = Batches()
        self.source = Source()

    def gives(self, data, ids=None, source=None):
        batch = Batch(ids, 0, source=source or self.source)
        self.batches.give(data, batch, wants_items=True)
        return batch

    def takes(self, *inputs):
        return self.batches.take(inputs)

    # ---- what is in a batch

    def test_tensors_are_named_by_their_place(self):
        x = tensor(1)
        named = tensors_in({"a": [x, {"b": x}], "n": 3, "t": (x, "text")})
        self.assertEqual([name for name, _ in named], ["a.0", "a.1.b", "t.0"])
        self.assertEqual([name for name, _ in tensors_in(x)], ["x"])
        self.assertEqual([name for name, _ in tensors_in([x, x])], ["0", "1"])

    def test_an_item_has_the_number_that_its_content_decides(self):
        images, labels = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0])
        items = items_in([images, labels])
        self.assertEqual((len(items), len(set(items))), (3, 3))
        order = torch.tensor([2, 0, 1])
        self.assertEqual(items_in([images[order], labels[order]]), [items[2], items[0], items[1]])
        self.assertEqual(items_in([images.t().contiguous().t(), labels]), items)

    def test_a_label_decides_an_item_too(self):
        images = torch.zeros(2, 2)
        same, other = items_in([images, torch.tensor([0, 0])]), items_in([images, torch.tensor([0, 1])])
        self.assertEqual((same[0], same[0]), (same[1], other[0]))
        self.assertNotEqual(same[1], other[1])

    def test_tensors_with_another_number_of_rows_are_no_part_of_items(self):
        images = torch.arange(4.0).reshape(2, 2)
        self.assertEqual(items_in([images, torch.tensor(3.0), torch.zeros(5)]), items_in([images]))
        self.assertEqual((items_in([]), items_in([torch.zeros(2, 0)]), items_in([torch.tensor(1.0)])), ([], [], []))

    def test_a_copy_looks_the_same(self):
        large = torch.arange(1000.0).reshape(10, 100)
        self.assertEqual(look_of(large), look_of(large.clone()))
        for other in (large + 1, large.double(), large.reshape(100, 10)):
            self.assertNotEqual(look_of(large), look_of(other))
        self.assertTrue(look_of(large.t()))
        self.assertEqual((look_of(torch.zeros(0)), look_of(large.to_sparse())), ("", ""))

    def test_a_loader_that_names_indices_needs_no_numbers_of_items(self):
        images = torch.arange(4.0).reshape(2, 2)
        self.assertEqual(self.gives(images, ids=[7, 8]).items, [])
        self.assertEqual(self.gives(images).items, items_in([images]))
        unwanted = Batch(None, 0)
        self.batches.give(images, unwanted, wants_items=False)
        self.assertEqual(unwanted.items, [])

    def test_no_tensor_is_kept_alive(self):
        data = {"x": tensor(1), "y": tensor(2)}
        batch = self.gives(data)
        self.assertEqual([name for name, _ in batch.named_tensors()], ["x", "y"])
        del data["x"]
        gc.collect()
        self.assertEqual([(name, y.tolist()) for name, y in batch.named_tensors()], [("y", [2.0])])

    # ---- which batch a model takes

    def test_an_input_takes_the_batch_that_it_is_a_part_of(self):
        kept = [torch.arange(8.0).reshape(4, 2) + 10 * i for i in range(3)]
        given = [self.gives(data, source=Source()) for data in kept]  # of loaders that take turns
        self.assertEqual(self.takes(kept[1][:2]), [given[1]])
        self.assertTrue(given[1].source.is_known)
        self.assertFalse(given[0].source.is_known)
        self.assertEqual(self.batches.waiting, 2)

    def test_an_input_of_several_batches_takes_them_all(self):
        x, y = tensor(1, 2), tensor(3, 4)
        given = [self.gives(x), self.gives(y)]
        self.assertEqual(self.takes(x, y), given)
        self.assertEqual(self.batches.waiting, 0)

    def test_a_copy_takes_the_batch_that_looks_the_same(self):
        kept = [tensor(1, 2), tensor(3, 4)]
        given = [self.gives(data, source=Source()) for data in kept]
        self.assertEqual(self.takes(kept[1].clone()), [given[1]])
        self.assertFalse(self.batches.any_guessed)

    def test_batches_that_look_the_same_are_taken_one_by_one(self):
        kept = [tensor(1, 2), tensor(1, 2)]
        given = [self.gives(data) for data in kept]
        self.assertEqual([self.takes(tensor(1, 2)), self.takes(tensor(1, 2))], [[given[0]], [given[1]]])

    def test_batches_before_it_in_its_pass_were_left_out(self):
        kept = [tensor(1), tensor(2), tensor(3)]
        given = [self.gives(data) for data in kept]
        self.assertEqual(self.takes(kept[1]), [given[1]])
        self.assertEqual(self.batches.waiting, 1)
        self.assertEqual(self.takes(kept[2]), [given[2]])

    def test_batches_of_another_pass_wait(self):
        kept = [tensor(1), tensor(2)]
        other, given = self.gives(kept[0], source=Source()), self.gives(kept[1])
        self.assertEqual(self.takes(kept[1]), [given])
        self.assertEqual(self.takes(kept[0]), [other])

    def test_a_transformed_input_takes_the_oldest(self):
        kept = [tensor(1), tensor(2)]
        given = [self.gives(data) for data in kept]
        self.assertEqual(self.takes(tensor(50)), [given[0]])
        self.assertTrue(self.batches.any_guessed)
        self.assertEqual(self.takes(tensor(60)), [given[1]])
        self.assertEqual(self.takes(tensor(70)), [])

    def test_the_only_one_that_waits_is_no_guess(self):
        x = tensor(1)
        given = self.gives(x)
        self.assertEqual(self.takes(tensor(50)), [given])
        self.assertFalse(self.batches.any_guessed)

    def test_the_same_input_once_more_takes_no_other(self):
        kept = [tensor(1), tensor(2)]
        given = [self.gives(data) for data in kept]
        self.assertEqual(self.takes(kept[0]), [given[0]])
        self.assertEqual((self.takes(kept[0]), self.batches.waiting), ([], 1))
        third = tensor(3)
        self.gives(third)
        self.assertEqual((self.takes(kept[0]), self.batches.waiting), ([], 2))

    def test_two_that_cannot_be_looked_at_look_like_nothing(self):
        kept = [tensor(1), tensor(2).to_sparse()]
        given = [self.gives(data) for data in kept]
        self.assertEqual(self.takes(tensor(2).to_sparse()), [given[0]])

    def test_noise_takes_none_that_was_fetched_ahead(self):
        kept = [tensor(1), tensor(2)]
        given = [self.gives(data) for data in kept]
        self.takes(kept[0])
        self.assertEqual((self.takes(tensor(50)), self.batches.waiting), ([], 1))
        self.batches.end()  # of a loader that fetches ahead, the last one is about to be taken
        self.assertEqual(self.takes(tensor(60)), [given[1]])

    def test_a_copy_is_known_although_the_only_batch_was_fetched_ahead(self):
        kept = [tensor(1), tensor(2)]
        given = [self.gives(data) for data in kept]
        self.takes(kept[0])
        self.assertEqual(self.takes(tensor(2)), [given[1]])

    def test_batches_that_nobody_takes_are_forgotten(self):
        for index in range(70):
            last = self.gives(tensor(index), ids=[index])
        self.assertEqual(self.batches.waiting, 64)
        self.assertEqual(self.batches.take_oldest()[0].ids, [6])
        self.assertEqual(last.ids, [69])

    def test_facts_are_those_of_the_batch_that_comes_next(self):
        self.assertEqual(self.batches.facts(), {})
        x, y = tensor(1), tensor(2)
        self.gives(x).facts["n"] = 1
        self.gives(y).facts["n"] = 2
        self.assertEqual(self.batches.facts(), {"n": 1})
        self.takes(x)
        self.assertEqual(self.batches.facts(), {"n": 2})

    def test_none_is_taken_where_none_was_given(self):
        self.assertEqual((self.takes(tensor(1)), self.batches.take_oldest(), self.batches.any_given), ([], [], False))
        self.gives(tensor(1))
        self.assertTrue(self.batches.any_given)


if __name__ == "__main__":
    unittest.main()
