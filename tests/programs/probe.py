"""Runs a script as `python script.py …` does, and writes down every bit of its training: probe.py OUT SCRIPT …

After each update the digests of parameters and generators; at the end those of parameters, buffers, optimizer state and
generators. PROBE_PLANT=draw|bit breaks the recorder, so that the comparison is seen to fail.
"""

import hashlib
import json
import os
import random
import runpy
import sys
import warnings

import numpy
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

optimizers, modules, steps = [], [], []


def digest(*tensors):
    state = hashlib.sha256()
    for tensor in tensors:
        tensor = tensor.detach()
        state.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        state.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def generators():
    numpy_state = numpy.random.get_state()
    return [digest(torch.get_rng_state()), hashlib.sha256(repr(random.getstate()).encode()).hexdigest(),
            hashlib.sha256(numpy_state[1].tobytes() + repr(numpy_state[2:]).encode()).hexdigest()]


def after_update(optimizer, args, kwargs):
    import gc
    if optimizer not in optimizers:
        optimizers.append(optimizer)
        for found in gc.get_objects():
            if issubclass(type(found), torch.nn.Module) and not any(found is known for known in modules):
                modules.append(found)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    steps.append([digest(*parameters), *generators()])


def flat(name, value):
    if isinstance(value, torch.Tensor):
        yield name, digest(value)
    elif isinstance(value, dict):
        for key in value:
            yield from flat(f"{name}.{key}", value[key])
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from flat(f"{name}.{index}", item)
    else:
        yield name, repr(value)


def final():
    found = {"generators": generators()}
    # The garbage collector knows modules in an order that recording may change: equal sets, in one order.
    held = sorted([type(module).__name__, *flat("module", module.state_dict())] for module in modules)
    found["modules"] = [[name, *map(list, tensors)] for name, *tensors in held]
    for index, optimizer in enumerate(optimizers):
        found.update(flat(f"optimizer{index}", optimizer.state_dict()))
    return found


def plant(what):
    from lockstep import _generators, _install
    if what == "draw":
        record = _generators.Generators.record
        _generators.Generators.record = lambda self, recorder: (record(self, recorder), torch.rand(1))[0]
    elif what == "bit":
        models = _install.session.models
        refresh = models.refresh

        def flip():
            named = refresh()
            for _, parameter in named:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    parameter.data.view(-1)[:1].view(torch.int32).bitwise_xor_(1)
            return named

        models.refresh = flip


def main():
    out, script = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(script)
    random.seed(0)
    numpy.random.seed(0)
    if os.environ.get("PROBE_PLANT"):
        plant(os.environ["PROBE_PLANT"])
    register_optimizer_step_post_hook(after_update)
    runpy.run_path(script, run_name="__main__")
    with open(f"{out}.{os.environ.get('RANK', 0)}.json", "w") as file:
        json.dump({"steps": steps, "final": final()}, file)


if __name__ == "__main__":
    main()
