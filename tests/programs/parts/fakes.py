"""A session and a recorder in memory, for tests of one part."""

from lockstep._gradients import Gradients
from lockstep._models import Models
from lockstep._optimizers import Optimizers
from lockstep._step import Step
from lockstep._turns import Turns


class FakeRecorder:
    """Keeps what each step is told, and holds records back as the library does."""

    def __init__(self):
        self.steps = {}  #: (channel, name, value) of each step that began
        self.ended = []  #: steps whose lines are written
        self._waiting, self._holds = [], False

    def begin_step(self, step):
        self._step = step
        self.steps[step] = []

    def end_step(self):
        self.ended.append(self._step)

    def number(self, channel, name, value):
        (self._waiting if self._holds else self.steps[self._step]).append((channel, name, value))

    integer = integers = text = number

    def tensors(self, channel, named):
        for name, tensor in named:
            self.number(channel, name, tensor.tolist())

    def hold(self, holding):
        self._holds = holding

    def release(self, names):
        waiting, self._waiting, self._holds = self._waiting, [], False
        for channel, name, value in waiting:
            self.number(channel, names.get((channel, name), name), value)

    def names(self, step, channel):
        return [name for told, name, _ in self.steps[step] if told == channel]


class FakeSession:
    """What the protocols of lockstep/_recording.py ask for, as far as the tests need it. Its first step has begun."""

    def __init__(self):
        self.recorder = FakeRecorder()
        self.models, self.optimizers, self.gradients = Models(), Optimizers(), Gradients()
        self.updates = self.muted_updates = 0
        self.by_hand = self.is_muted = self.is_preparing = False
        self.records = True
        self.unwanted = set()  #: channels
        self.failure = None
        self.step = Step()
        self.turns = Turns(self)
        self.begin(0)

    def listens(self):
        return self.failure is None

    def fail(self, error):
        self.failure = error

    def wants(self, channel):
        return channel not in self.unwanted

    def start(self):
        return self.records

    def stop_if_done(self):
        pass

    def go_on(self):
        """As the session does."""
        if self.step.complete:
            self.recorder.end_step()
            self.begin(self.updates)
        elif self.step.turn_ended and not self.by_hand:
            self.turns.follow()

    def begin(self, step):
        self.step = Step(batch=self.step.batch)
        self.recorder.begin_step(step)

    def before_end(self):
        self.recorder.text("collective", "before_end", "")

    def complete(self):
        self.updates += 1
        self.step.complete = True
        self.recorder.integer("ledger", "updates", self.updates)

    def keep_alive(self):
        self.step.alive = [object()]

    def record_hyperparameters(self, optimizer):
        self.recorder.text("ledger", "hyperparameters", type(optimizer).__name__)
