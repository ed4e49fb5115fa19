// One rank as a C program, and what may befall it: recording DEED FOLDER [RANK [STEP_OF_THE_FLIPPED_BIT]]

#include <lockstep/recorder.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void demand(lockstep_status status, const lockstep_recorder* recorder) {
  if (status == LOCKSTEP_OK) return;
  printf("status %d: %s\n", (int)status, lockstep_recorder_error(recorder));
  exit(3);
}

static lockstep_recorder* open_rank(const char* folder, int64_t rank, int64_t world_size) {
  const lockstep_recorder_config config = {
      .size = sizeof config, .folder = folder, .rank = rank, .world_size = world_size, .header = "{\"samples\": 8}"};
  lockstep_recorder* recorder = NULL;
  demand(lockstep_recorder_open(&config, &recorder), NULL);
  return recorder;
}

static lockstep_tensor vector_of(const float* values, const int64_t* size) {
  const lockstep_tensor tensor = {.dtype = LOCKSTEP_FLOAT32, .dimensions = 1, .shape = size, .data = values};
  return tensor;
}

/// Something of every kind.
static void record_step(lockstep_recorder* recorder, int64_t step, int64_t rank, int flip) {
  const int64_t size = 4, ids[] = {2 * step + rank, 2 * step + rank + 4};
  float values[] = {1.5F, -2, (float)step, 0};
  const lockstep_tensor tensor = vector_of(values, &size);
  demand(lockstep_recorder_begin_step(recorder, step), recorder);
  demand(lockstep_recorder_integers(recorder, "samples", "ids", ids, 2), recorder);
  demand(lockstep_recorder_number(recorder, "loss", "local", 0.25 * (double)(step + rank)), recorder);
  demand(lockstep_recorder_tensor(recorder, "gradient", "fc.weight", &tensor), recorder);
  unsigned bits;
  memcpy(&bits, &values[3], sizeof bits);
  bits ^= (unsigned)flip;
  memcpy(&values[3], &bits, sizeof bits);
  demand(lockstep_recorder_tensor(recorder, "weight", "fc.weight", &tensor), recorder);
  demand(lockstep_recorder_integer(recorder, "ledger", "updates", step + 1), recorder);
  demand(lockstep_recorder_text(recorder, "collective", "0", "allreduce Float[4] SUM"), recorder);
  demand(lockstep_recorder_end_step(recorder), recorder);
}

static void record_rank(const char* folder, int64_t rank, int64_t flipped_step) {
  lockstep_recorder* recorder = open_rank(folder, rank, 2);
  for (int64_t step = -1; step < 3; ++step) record_step(recorder, step, rank, step == flipped_step);
  demand(lockstep_recorder_close(recorder), recorder);
  lockstep_recorder_free(recorder);
}

/// Dies in the middle of step 1, after step 0 had the time to be written.
static void die_in_a_step(const char* folder) {
  lockstep_recorder* recorder = open_rank(folder, 0, 1);
  record_step(recorder, -1, 0, 0);
  record_step(recorder, 0, 0, 0);
  usleep(200000);
  demand(lockstep_recorder_begin_step(recorder, 1), recorder);
  demand(lockstep_recorder_number(recorder, "loss", "local", 1), recorder);
  raise(SIGKILL);
}

static void leave_without_close(const char* folder) {
  lockstep_recorder* recorder = open_rank(folder, 0, 1);
  record_step(recorder, -1, 0, 0);
  lockstep_recorder_free(recorder);
}

/// The file may have 4 KiB; says which calls failed, and how.
static void fill_the_disk(const char* folder) {
  const struct rlimit limit = {4096, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  lockstep_recorder* recorder = open_rank(folder, 0, 1);
  setrlimit(RLIMIT_FSIZE, &limit);
  lockstep_status status = LOCKSTEP_OK;
  char text[1024] = {0};
  memset(text, 'x', sizeof text - 1);
  for (int64_t step = 0; step < 100000 && status == LOCKSTEP_OK; ++step) {
    lockstep_recorder_begin_step(recorder, step);
    lockstep_recorder_text(recorder, "collective", "0", text);
    status = lockstep_recorder_end_step(recorder);
  }
  const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &none);  // space again: the trace must not be closed as if nothing had happened
  printf("end_step %d\n", (int)status);
  printf("begin_step %d\n", (int)lockstep_recorder_begin_step(recorder, 100000));
  printf("close %d\n%s\n", (int)lockstep_recorder_close(recorder), lockstep_recorder_error(recorder));
  lockstep_recorder_free(recorder);
}

/// Makes no more progress in step 3.
static void stop_in_a_step(const char* folder) {
  lockstep_recorder* recorder = open_rank(folder, 0, 1);
  for (int64_t step = -1; step < 3; ++step) record_step(recorder, step, 0, 0);
  demand(lockstep_recorder_begin_step(recorder, 3), recorder);
  sleep(600);
}

static lockstep_recorder* shared;
static pthread_barrier_t start;

static void* record_in_thread(void* argument) {
  const float values[] = {1, 2, 3, 4};
  const int64_t size = 4;
  const lockstep_tensor tensor = vector_of(values, &size);
  pthread_barrier_wait(&start);
  for (int i = 0; i < 2500; ++i) {
    char name[32];
    snprintf(name, sizeof name, "%c%d", *(const char*)argument, i);
    demand(lockstep_recorder_tensor(shared, "gradient.local", name, &tensor), shared);
  }
  return NULL;
}

static void record_with_threads(const char* folder) {
  char names[] = "abcd";
  pthread_t threads[4];
  pthread_barrier_init(&start, NULL, 4);
  shared = open_rank(folder, 0, 1);
  demand(lockstep_recorder_begin_step(shared, 0), shared);
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, record_in_thread, &names[i]);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  demand(lockstep_recorder_end_step(shared), shared);
  demand(lockstep_recorder_close(shared), shared);
  lockstep_recorder_free(shared);
}

/// A child, such as a loader's worker, can do no harm to its parent's trace.
static void fork_in_a_step(const char* folder) {
  lockstep_recorder* recorder = open_rank(folder, 0, 1);
  demand(lockstep_recorder_begin_step(recorder, 0), recorder);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int refused = lockstep_recorder_number(recorder, "loss", "local", 1) == LOCKSTEP_MISUSE &&
                        lockstep_recorder_close(recorder) == LOCKSTEP_MISUSE &&
                        strstr(lockstep_recorder_error(recorder), "another process") != NULL;
    lockstep_recorder_free(recorder);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  demand(lockstep_recorder_number(recorder, "loss", "local", 2), recorder);
  demand(lockstep_recorder_end_step(recorder), recorder);
  demand(lockstep_recorder_close(recorder), recorder);
  lockstep_recorder_free(recorder);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* const deed = argv[1];
  const int64_t rank = argc > 3 ? atoi(argv[3]) : 0, flipped_step = argc > 4 ? atoi(argv[4]) : -2;
  if (strcmp(deed, "rank") == 0) record_rank(argv[2], rank, flipped_step);
  if (strcmp(deed, "die") == 0) die_in_a_step(argv[2]);
  if (strcmp(deed, "leave") == 0) leave_without_close(argv[2]);
  if (strcmp(deed, "stop") == 0) stop_in_a_step(argv[2]);
  if (strcmp(deed, "full") == 0) fill_the_disk(argv[2]);
  if (strcmp(deed, "threads") == 0) record_with_threads(argv[2]);
  if (strcmp(deed, "fork") == 0) fork_in_a_step(argv[2]);
  return 0;
}
