"""The models of the worker, as a PyTorch user would write them."""

import itertools
import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self, inputs, hidden, classes, dropout):
        super().__init__()
        self.dropout = dropout
        widths = [inputs, *hidden, classes]
        for i, (fan_in, fan_out) in enumerate(itertools.pairwise(widths), start=1):
            setattr(self, f"fc{i}", nn.Linear(fan_in, fan_out))

    def forward(self, x):
        *hidden, last = self.children()
        x = x.flatten(1)
        for layer in hidden:
            x = F.relu(layer(x))
            if self.dropout > 0:
                x = F.dropout(x, self.dropout, self.training)
        return last(x)


class Linear(nn.Module):
    def __init__(self, inputs, classes, bias):
        super().__init__()
        self.fc = nn.Linear(inputs, classes, bias)

    def forward(self, x):
        return self.fc(x.flatten(1))


class LeNet(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        channels, height, width = shape
        self.conv1 = nn.Conv2d(channels, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * (height // 4) * (width // 4), 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.flatten(1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class SyncBatchNorm(nn.BatchNorm2d):
    """torch.nn.SyncBatchNorm in plain tensor operations; PyTorch's own refuses CPU tensors."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        self.num_batches_tracked.add_(1)
        dtype, x = x.dtype, x.to(self.weight.dtype)  # under autocast too
        with torch.no_grad():
            mean, variance, count = self.moments(x)
            unbiased = variance * (count / (count - 1))
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(unbiased, alpha=self.momentum)
        return Normalize.apply(x, self.weight, self.bias, mean, variance, count, self.eps).to(dtype)

    @staticmethod
    def moments(x):
        flat = x.transpose(0, 1).flatten(1)
        mean = flat.mean(1)
        squares = (flat - mean[:, None]).square().sum(1)
        mine = torch.cat([mean, squares, torch.full((1,), float(flat.shape[1]), device=x.device)])
        everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, mine)
        channels = len(mean)
        means, squares, counts = torch.stack(everyone).split([channels, channels, 1], dim=1)
        total = counts.sum()
        common = (means * counts).sum(0) / total
        deviation = (means - common).square() * counts
        return common, (squares + deviation).sum(0) / total, total


class Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, mean, variance, count, eps):
        scale = (variance + eps).rsqrt()
        ctx.save_for_backward(x, weight, mean, scale, count)
        return (x - per_channel(mean)) * per_channel(scale) * per_channel(weight) + per_channel(bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, mean, scale, count = ctx.saved_tensors
        gradient = gradient.contiguous()
        centered = x - per_channel(mean)
        total = gradient.sum((0, 2, 3))
        product = (gradient * centered).sum((0, 2, 3))
        everyone = torch.cat([total, product])
        dist.all_reduce(everyone)
        everyone = everyone / count
        mean_gradient, mean_product = everyone.split(len(total))
        mean_product = mean_product * scale.square()
        x_gradient = (gradient - per_channel(mean_gradient) - centered * per_channel(mean_product)) * per_channel(
            scale * weight
        )
        return x_gradient, product * scale, total, None, None, None, None


def per_channel(values):
    return values.view(1, -1, 1, 1)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, norm):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = norm(outputs)
        self.has_shortcut = stride != 1 or inputs != outputs
        if self.has_shortcut:
            self.shortcut_conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut_bn = norm(outputs)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        shortcut = self.shortcut_bn(self.shortcut_conv(x)) if self.has_shortcut else x
        return F.relu(y + shortcut)


class ResNet(nn.Module):
    def __init__(self, channels, widths, classes, norm):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.bn1 = norm(widths[0])
        self.blocks = len(widths)
        width = widths[0]
        for i, outputs in enumerate(widths, start=1):
            setattr(self, f"layer{i}", Block(width, outputs, 1 if i == 1 else 2, norm))
            width = outputs
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        for i in range(self.blocks):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + F.dropout(self.attention(self.norm1(x)), self.dropout, self.training)
        return x + F.dropout(self.fc2(F.gelu(self.fc1(self.norm2(x)))), self.dropout, self.training)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Transformer(nn.Module):
    def __init__(self, vocabulary, length, width, heads, layers, dropout):
        super().__init__()
        self.dropout = dropout
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.layers = layers
        for i in range(layers):
            setattr(self, f"block{i + 1}", TransformerBlock(width, heads, dropout))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        x = F.dropout(x, self.dropout, self.training)
        for i in range(self.layers):
            x = getattr(self, f"block{i + 1}")(x)
        return F.linear(self.norm(x), self.tokens.weight)


class Branch(nn.Module):
    def __init__(self, inputs, width, classes, every):
        super().__init__()
        self.every = every
        self.trunk = nn.Linear(inputs, width)
        self.side = nn.Linear(inputs, width)
        self.head = nn.Linear(width, classes)
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = x.flatten(1)
        y = self.trunk(x)
        if self.forwards.item() % self.every == 0:
            y = y + self.side(x)
        self.forwards.add_(1)
        return self.head(F.relu(y))


def make_model(spec, shape, classes):
    match spec["kind"]:
        case "mlp":
            return MLP(math.prod(shape), spec["hidden"], classes, spec["dropout"])
        case "linear":
            return Linear(math.prod(shape), classes, spec["bias"])
        case "lenet":
            return LeNet(shape, classes)
        case "resnet":
            norm = SyncBatchNorm if spec["norm"] == "sync_batch" else nn.BatchNorm2d
            return ResNet(shape[0], spec["widths"], classes, norm)
        case "transformer":
            return Transformer(classes, shape[0], spec["width"], spec["heads"], spec["layers"], spec["dropout"])
        case "branch":
            return Branch(math.prod(shape), spec["width"], classes, spec["every"])
        case kind:
            raise ValueError(f"unknown model {kind!r}")
