"""Actor-critic with a shared trunk on a contextual bandit: right because actions are drawn without gradients by a generator of the rank's own, the advantage is detached and one loss trains both heads."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class ActorCritic(nn.Module):
    def __init__(self, obs=4, actions=3, width=24):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, width), nn.Tanh())
        self.policy, self.value = nn.Linear(width, actions), nn.Linear(width, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return F.log_softmax(self.policy(h), dim=-1), self.value(h).squeeze(-1)


class Bandit:
    """The reward is 1 for the action that the observation favours."""

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)

    def observe(self, n):
        return torch.randn(n, 4, generator=self.rng)

    def reward(self, obs, action):
        return (obs[:, :3].argmax(dim=1) == action).float()


@torch.no_grad()
def rollout(module, env, n=5):
    obs = env.observe(n)
    action = torch.multinomial(module(obs)[0].exp(), 1, generator=env.rng).squeeze(1)
    return obs, action, env.reward(obs, action)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(820)
    ddp = DDP(ActorCritic())
    opt = torch.optim.Adam(ddp.parameters(), lr=0.01)
    env = Bandit(seed=821 + dist.get_rank())
    for update in range(12):
        obs, action, reward = rollout(ddp.module, env)
        logp, value = ddp(obs)
        advantage = reward - value.detach()
        chosen = logp.gather(1, action[:, None]).squeeze(1)
        entropy = -(logp.exp() * logp).sum(1).mean()
        loss = -(chosen * advantage).mean() + 0.5 * F.mse_loss(value, reward) - 0.01 * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(ddp.parameters(), 0.5)
        opt.step()
    dist.destroy_process_group()


main()
