"""After pytorch.org/tutorials/beginner/basics/quickstart_tutorial.html: a loader with workers, evaluation."""
import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(8 * 8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))


def train(dataloader, model, loss_fn, optimizer):
    size = len(dataloader.dataset)
    model.train()
    for batch, (X, y) in enumerate(dataloader):
        pred = model(X)
        loss = loss_fn(pred, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if batch % 10 == 0:
            print(f"loss: {loss.item():>7f}  [{(batch + 1) * len(X):>5d}/{size:>5d}]")


def test(dataloader, model, loss_fn):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for X, y in dataloader:
            pred = model(X)
            test_loss += loss_fn(pred, y).item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    print(f"Test Error: Accuracy: {100 * correct / len(dataloader.dataset):>0.1f}%, "
          f"Avg loss: {test_loss / len(dataloader):>8f}")


def images(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.rand(count, 1, 8, 8, generator=generator),
                         torch.randint(10, (count,), generator=generator))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", default="model.pth")
    args = parser.parse_args()
    torch.manual_seed(7)
    train_dataloader = DataLoader(images(128, 1), batch_size=16, shuffle=True, num_workers=args.workers)
    test_dataloader = DataLoader(images(48, 2), batch_size=16)
    model = NeuralNetwork()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    for t in range(args.epochs):
        print(f"Epoch {t + 1}\n-------------------------------")
        train(train_dataloader, model, loss_fn, optimizer)
        test(test_dataloader, model, loss_fn)
        scheduler.step()
    torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
