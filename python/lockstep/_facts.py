"""The trace's first line: the environment, what was seen of the training, and what cannot be seen of it."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DataParallel, DistributedDataParallel

from lockstep import __version__, _flight, _fsdp, _library, _models, _optimizers, _settings, _shards
from lockstep._recording import Seen

#: Variables that decide bits: those of lockstep-worker (harness/train/device/determinism.cpp), and Python's.
_VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
              "OMP_DYNAMIC", "MKL_DYNAMIC", "CUBLAS_WORKSPACE_CONFIG", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
              "NVIDIA_TF32_OVERRIDE", "PYTHONHASHSEED", "NCCL_ALGO", "NCCL_PROTO", "PYTORCH_CUDA_ALLOC_CONF")

#: Packages whose version may decide bits, and those that run trainings.
_FRAMEWORKS = ("accelerate", "transformers", "lightning", "pytorch_lightning", "deepspeed", "timm", "diffusers")
_LIBRARIES = ("numpy", "torchvision", "torchdata", "datasets", "tokenizers", "PIL")

_KINDS = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw", "RMSprop": "rmsprop", "Adagrad": "adagrad",
          "Adamax": "adamax", "LBFGS": "lbfgs", "NAdam": "nadam", "RAdam": "radam", "Adadelta": "adadelta"}
_SAMPLERS = {"DistributedSampler": "distributed", "RandomSampler": "random", "SequentialSampler": "sequential",
             "SubsetRandomSampler": "subset_random", "WeightedRandomSampler": "weighted_random"}
_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def header_of(session: Seen) -> dict[str, Any]:
    seen = seen_in(session)
    header: dict[str, Any] = {
        "scenario": "recorded", "variant": "-", "train_digest": "", "recorder": "python",
        "recorder_version": __version__,
        "framework": [f"{name} {version}" for name, version in _versions(_FRAMEWORKS).items()],
        "command": list(sys.argv), "environment": environment(), "seen": seen, "unseen": unseen_in(session),
        "record": {"every": session.settings.every,
                   "channels": sorted(session.settings.channels, key=_settings.CHANNELS.index)},
        "modules": session.modules.new()}
    if isinstance(seen.get("data", {}).get("samples"), int):
        header["samples"] = seen["data"]["samples"]
    arithmetic = _arithmetic(session)
    if arithmetic is not None:
        header["arithmetic"] = arithmetic
    split = _data_parallel(session)
    if split is not None:
        header["data_parallel"] = split
    if session.settings.controls:
        header["controls"] = dict(session.settings.controls)
    header.update(session.settings.header)
    return header


def _data_parallel(session: Seen) -> dict[str, int] | None:
    """Which part of the batch this rank computes, where tensors are split among ranks."""
    if not dist.is_available() or not dist.is_initialized():
        return None
    for _, root in session.models.roots():
        split = _fsdp.data_parallel(root, dist.get_world_size())
        if split is not None:
            return {"rank": split[0], "size": split[1]}
    return None


def environment() -> dict[str, Any]:
    """The manifest, spelled as lockstep-worker spells it where the same thing is meant."""
    values: dict[str, Any] = {
        "torch": torch.__version__.partition("+")[0],
        "build": torch.__version__,
        "cpu_model": _cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "deterministic_algorithms_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill_uninitialized_memory": torch._C._get_deterministic_fill_uninitialized_memory(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "tf32_cublas": _allows_tf32(torch.backends.cuda.matmul),
        "tf32_cudnn": _allows_tf32(torch.backends.cudnn),
        "libraries": {"python": sys.version.split()[0], **_versions(_FRAMEWORKS + _LIBRARIES)},
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }
    for key, getter in (("mkldnn", "_get_mkldnn_enabled"), ("nnpack", "_get_nnpack_enabled"),
                        ("cudnn", "_get_cudnn_enabled"), ("mkldnn_deterministic", "_get_mkldnn_deterministic")):
        if hasattr(torch._C, getter):
            values[key] = getattr(torch._C, getter)()
    if torch.cuda.is_initialized():
        values["gpu_model"] = torch.cuda.get_device_name()
        values["libraries"]["cuda"] = torch.version.cuda
        values["libraries"]["cudnn"] = str(torch.backends.cudnn.version())
    return values


def _allows_tf32(backend: Any) -> bool | None:
    try:
        return bool(backend.allow_tf32)
    except Exception:  # set by torch's newer switches, which the older one cannot tell of
        return None


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown"


def _versions(names: Any) -> dict[str, str]:
    """Those that are imported."""
    found = {}
    for name in names:
        if name in sys.modules:
            found[name] = str(getattr(sys.modules[name], "__version__", "?"))
    return found


def seen_in(session: Seen) -> dict[str, Any]:
    """Facts of the training, in the words of the scenario's schema where it has them."""
    roots = [root for _, root in session.models.roots()]
    seen: dict[str, Any] = {"optimizer": [_optimizer(session, found) for found in session.optimizers.outermost()],
                            "ddp": _ddp(session), "layout": _layout(session),
                            "model": _model(roots[0]) if roots else {}, "grad_scaler": session.scaler() is not None,
                            "seeds": session.seeds.said(), "loaded": session.loaded, "every": session.settings.every}
    if any(getattr(p, "_backward_hooks", None) for root in roots for p in _fsdp.parameters(root)):
        seen["hooks"] = True  # of tensors: they may change gradients
    if len(roots) > 1:
        seen["models"] = [_model(root) for root in roots]
    dtype = _autocast_dtype()
    if dtype is not None:
        seen["autocast"] = _DTYPES.get(dtype, str(dtype))
    seen.update(session.batches.facts())
    return seen


def _optimizer(session: Seen, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    groups = []
    for group in optimizer.param_groups:
        names = [name for name, _ in session.models.in_order(group["params"])]
        groups.append({**{key: _plain(value) for key, value in group.items() if key not in ("params", "param_names")},
                       "parameters": names})
    name = type(optimizer).__name__
    return {"class": name, "kind": _KINDS.get(name, name.lower()), "groups": groups}


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else str(tuple(value.shape))
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _in_ddp(session: Seen) -> dict[str, Any]:
    """Trained parameters by the modules in DDP that have them, where these are several, and those of none."""
    trained = [p for found in session.optimizers.outermost() for group in found.param_groups for p in group["params"]]
    wrapped = [{id(p) for p in wrapper.module.parameters()} for wrapper in session.ddp_wrappers()]
    named = session.models.in_order(trained)
    return {"outside": [name for name, p in named if not any(id(p) in held for held in wrapped)],
            "wrapped": [[name for name, p in named if id(p) in held] for held in wrapped if len(wrapped) > 1]}


def _ddp(session: Seen) -> dict[str, Any]:
    for wrapper in session.ddp_wrappers():
        hooks = [str(getattr(hook, "__qualname__", hook)) for hook, _ in getattr(wrapper, "_comm_hooks", [])]
        return {"wrap": True, **_in_ddp(session), "bucket_mb": getattr(wrapper, "bucket_bytes_cap", 0) / (1024 * 1024),
                "gradient_as_bucket_view": bool(wrapper.gradient_as_bucket_view),
                "find_unused_parameters": bool(wrapper.find_unused_parameters),
                "broadcast_buffers": bool(wrapper.broadcast_buffers),
                "comm_hook": hooks[0] if hooks else None, "static_graph": bool(getattr(wrapper, "static_graph", False)),
                **({"join": True} if getattr(getattr(wrapper, "_join_config", None), "enable", False) else {})}
    roots = [root for _, root in session.models.roots()]
    facts = {"wrap": False, "sharded": any(map(_is_sharded, roots))}
    groups = [group for root in roots for group in _fsdp.groups_in(root)]
    if not groups:
        return facts
    reduced = {id(parameter.sharded_param) for group in groups for parameter in group.fsdp_params}
    trained = [p for found in session.optimizers.outermost() for p in _optimizers.parameters_of(found)]
    outside = [name for name, p in session.models.in_order(trained) if id(p) not in reduced]
    return {**facts, "fsdp": _fsdp.policy_of(groups), "outside": outside}


def _layout(session: Seen) -> dict[str, int]:
    """Over how many ranks the model is replicated, sharded, and split into tensors; only what is more than one."""
    sizes = {"replicate": 1, "shard": 1, "tensor": 1}
    for wrapper in session.ddp_wrappers():
        sizes["replicate"] = max(sizes["replicate"], dist.get_world_size(wrapper.process_group))
    for _, root in session.models.roots():
        groups = list(_fsdp.groups_in(root))
        told = {**_fsdp.split_of(groups), "tensor": _fsdp.tensor_split_of(root, groups)}
        sizes = {kind: max(size, told[kind]) for kind, size in sizes.items()}
    return {kind: size for kind, size in sizes.items() if size > 1}


def _is_sharded(root: torch.nn.Module) -> bool:
    """Whether other ranks hold parts of its parameters."""
    return _models.sharding_of(root) is not None or any(not _library.is_readable(p) for p in _fsdp.parameters(root))


def _model(root: torch.nn.Module) -> dict[str, Any]:
    drops = any(isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0 for part in root.modules())
    return {"class": _shards.class_of(root).__name__, "parameters": sum(p.numel() for p in _fsdp.parameters(root)),
            "trainable": sum(p.numel() for p in root.parameters() if p.requires_grad),
            "buffers": [_models.plain(name) for name, _ in root.named_buffers()], "dropout": drops, **_norm(root)}


def _norm(root: torch.nn.Module) -> dict[str, str]:
    """Whether layers take statistics of the batch: of this rank's part, or of all ranks."""
    kinds = [isinstance(part, torch.nn.SyncBatchNorm) for part in root.modules()
             if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]
    return {"norm": "sync_batch" if all(kinds) else "batch"} if kinds else {}


def _autocast_dtype() -> torch.dtype | None:
    """The autocast under which the model computes, as far as it is known when the trace begins."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
    # accelerate, and transformers through it, switch it on inside of the model's forward.
    accelerate = sys.modules.get("accelerate.state")
    state = getattr(getattr(accelerate, "AcceleratorState", None), "_shared_state", {})
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(str(state.get("_mixed_precision")))


def _arithmetic(session: Seen) -> str | None:
    """The dtype in which the model computes, where it is coarser than its weights: of autocast, or FSDP2's policy."""
    dtype = _autocast_dtype()
    if dtype is not None:
        return str(dtype)[len("torch."):]
    computes = {_fsdp.policy_of([group])["param_dtype"] for _, root in session.models.roots()
                for group in _fsdp.groups_in(root)}
    return next((name for name in ("bfloat16", "float16") if name in computes), None)


def loader_facts(loader: Any, sampler: Any) -> dict[str, Any]:
    """A DataLoader's "data", "sampler" and "batch"."""
    data: dict[str, Any] = {"class": type(loader.dataset).__name__}
    try:
        data["samples"] = len(loader.dataset)
    except (TypeError, NotImplementedError, AttributeError):
        pass
    name = type(sampler).__name__
    facts: dict[str, Any] = {"class": name, "kind": _SAMPLERS.get(name, name)}
    facts["shuffle"] = getattr(sampler, "shuffle", name == "RandomSampler")
    for key in ("seed", "drop_last", "num_replicas", "rank", "replacement"):
        if isinstance(getattr(sampler, key, None), (bool, int)):
            facts[key] = getattr(sampler, key)
    batch = {"per_rank": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None),
             "drop_last": bool(loader.drop_last)}
    return {"data": data, "sampler": facts, "batch": batch, "loader_workers": loader.num_workers}


def unseen_in(session: Seen) -> list[str]:
    """What cannot be recorded, and why: a sentence each."""
    told = []
    compiled = dict(session.compiled)
    for _, root in session.models.roots():
        name = _shards.class_of(root).__name__
        owner = _models.sharding_of(root)
        if owner is not None:
            told.append(f"{owner} keeps parts of {name} on other ranks: weights, buffers, gradients and optimizer "
                        "state are not recorded.")
        hidden = sum(1 for p in root.parameters() if not _library.is_recordable(p))
        if hidden:
            told.append(f"{hidden} parameters of {name} have no memory of their own, or are no box of a tensor: their "
                        "weights, gradients and optimizer state are not recorded.")
        if _fsdp.tensor_split_of(root, list(_fsdp.groups_in(root))) > 1:
            told.append(f"{name} has DTensors: gradients that are terms of a sum (Partial) are not recorded.")
        if any(_is_compiled(part) for part in root.modules()):
            compiled.setdefault(name)
        if issubclass(type(root), DataParallel):
            told.append(f"{name} is spread over devices by DataParallel: gradients before its sum are not recorded.")
    told += [f"{name} is compiled by torch.compile: what happens inside is not seen; inputs may be those of the loader."
             for name in compiled]
    for optimizer in session.optimizers.alive():
        if _optimizers.is_sharded(optimizer):
            told.append("ZeroRedundancyOptimizer keeps a part of the optimizer's state on each rank: it is not "
                        "recorded.")
    if any(issubclass(type(wrapper), DistributedDataParallel) and getattr(wrapper, "_comm_hooks", [])
           for wrapper in session.ddp_wrappers()):
        told.append("A communication hook reduces the gradients: how is not recorded.")
    for backend in {dist.get_backend(wrapper.process_group) for wrapper in session.ddp_wrappers()}:
        if "collective" in session.settings.channels and not _flight.tells_of(backend):
            told.append(f"Collectives that DDP issues itself are not recorded (backend {backend}, torch "
                        f"{torch.__version__}): those of Gloo are, from torch 2.8 on.")
    told += [f"{name} keeps averages of weights: they are recorded only where the script calls lockstep.record(name, "
             'tensor, channel="ema").' for name in session.models.averages()]
    safetensors = sys.modules.get("safetensors.torch")
    if safetensors is not None and not hasattr(safetensors.load_file, "__wrapped__"):
        told.append("safetensors.torch was imported before torch: checkpoints that it writes and reads are not told.")
    return told


def _is_compiled(module: torch.nn.Module) -> bool:
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None
