"""Two models in DDP: one is updated three times as often, and the other's pass goes through it."""
# expect: holds
from base import *

rank, _ = start()
critic = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
maker = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)))
of_critic = torch.optim.Adam(critic.parameters(), lr=0.01)
of_maker = torch.optim.Adam(maker.parameters(), lr=0.01)
torch.manual_seed(7 + rank)
for index, x, _ in epochs(2, *batches_of(6)):
    noise = torch.randn(len(x), 4)
    of_critic.zero_grad()
    (critic(maker(noise).detach()).mean() - critic(x).mean()).backward()
    of_critic.step()
    if index % 3 == 2:
        of_maker.zero_grad()
        (-critic(maker(noise)).mean()).backward()
        of_maker.step()
