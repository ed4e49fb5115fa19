"""The script reduces its gradients itself, in buckets of two tensors: the last one is left out."""
# expect: holds
# planted last: holds; semantic grad.bucket_missing
from base import *

options = options_of(planted="")
_, ranks = start()
model = classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
parameters = list(model.parameters())
buckets = [parameters[:2], parameters[2:]]
for _, x, y in epochs(1, *batches_of(12)):
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    for bucket in buckets[:1] if options.planted else buckets:
        flat = torch.cat([parameter.grad.flatten() for parameter in bucket])
        dist.all_reduce(flat)
        pieces = (flat / ranks).split([parameter.numel() for parameter in bucket])
        for parameter, piece in zip(bucket, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
    optimizer.step()
