// Two ranks fit y = 3 x by gradient descent and record it: record FOLDER [RATE]

#include <lockstep/recorder.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRanks = 2, kShare = 2, kSteps = 4 };

static lockstep_recorder* open_rank(const char* folder, int64_t rank) {
  const lockstep_recorder_config config = {.size = sizeof config,
                                           .folder = folder,
                                           .rank = rank,
                                           .world_size = kRanks,
                                           .header = "{\"scenario\": \"line\", \"samples\": 16}"};
  lockstep_recorder* recorder = NULL;
  if (lockstep_recorder_open(&config, &recorder) != LOCKSTEP_OK) {
    fprintf(stderr, "record: %s\n", lockstep_recorder_error(NULL));
    exit(1);
  }
  return recorder;
}

static void record_float(lockstep_recorder* recorder, const char* channel, const char* name, float value) {
  const lockstep_tensor scalar = {.dtype = LOCKSTEP_FLOAT32, .data = &value};
  lockstep_recorder_tensor(recorder, channel, name, &scalar);
}

/// One rank's half of the global batch: records it, with its loss and gradient, and returns the gradient.
static float take_share(lockstep_recorder* recorder, int64_t rank, int64_t step, float weight) {
  int64_t ids[kShare];
  float inputs[kShare], loss = 0, gradient = 0;
  for (int i = 0; i < kShare; ++i) {
    ids[i] = (step * kShare + i) * kRanks + rank;
    inputs[i] = (float)ids[i] / 16;
    const float error = (weight - 3) * inputs[i];
    loss += error * error / kShare;
    gradient += 2 * error * inputs[i] / kShare;
  }
  const int64_t shape[] = {kShare};
  const lockstep_tensor input = {.dtype = LOCKSTEP_FLOAT32, .dimensions = 1, .shape = shape, .data = inputs};
  lockstep_recorder_begin_step(recorder, step);
  lockstep_recorder_integers(recorder, "samples", "ids", ids, kShare);
  lockstep_recorder_tensor(recorder, "input", "x", &input);
  record_float(recorder, "loss", "local", loss);
  record_float(recorder, "gradient.local", "w", gradient);
  return gradient;
}

int main(int argc, char** argv) {
  const float rate = argc > 2 ? strtof(argv[2], NULL) : 0.5F;
  float weight = 0;
  lockstep_recorder* ranks[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[rank] = open_rank(argc > 1 ? argv[1] : "run", rank);
    lockstep_recorder_begin_step(ranks[rank], -1);
    record_float(ranks[rank], "weight", "w", weight);
    lockstep_recorder_end_step(ranks[rank]);
  }
  for (int step = 0; step < kSteps; ++step) {
    float gradient = 0;
    for (int rank = 0; rank < kRanks; ++rank) gradient += take_share(ranks[rank], rank, step, weight) / kRanks;
    weight -= rate * gradient;
    for (int rank = 0; rank < kRanks; ++rank) {
      record_float(ranks[rank], "gradient", "w", gradient);
      record_float(ranks[rank], "weight", "w", weight);
      lockstep_recorder_number(ranks[rank], "ledger", "learning_rate", rate);
      lockstep_recorder_end_step(ranks[rank]);
    }
  }
  int failed = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (lockstep_recorder_close(ranks[rank]) != LOCKSTEP_OK) {
      fprintf(stderr, "record: %s\n", lockstep_recorder_error(ranks[rank]));
      failed = 1;
    }
    lockstep_recorder_free(ranks[rank]);
  }
  return failed;
}
