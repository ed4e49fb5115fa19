#ifndef LOCKSTEP_RECORDER_H
#define LOCKSTEP_RECORDER_H

/// Records the trace of one rank of a training, from C99 or C++: `lockstep show` and `lockstep diff` read it.
///
/// Open a recorder on each rank; in each step begin it, record, end it; then close and free. docs/recording.md has a
/// whole program. No call reads the clock, the locale or an environment variable, ends the process, or throws.
///
/// *Errors*: every call returns a status; `lockstep_recorder_error` says more. A call that fails records nothing, and
/// its trace stays *torn*: `lockstep_recorder_close` fails too, and no comparison takes the trace for a whole one. A
/// program may thus look at the statuses of open and close alone. *Threads*: threads may share a recorder; each call is
/// atomic. Records of one channel are stored in the order in which their calls end. Each recorder has two threads of
/// its own, which take no signals: one makes digests, the other writes the file. *Memory*: a call copies what it is
/// given, and returns; what a thread could not do with it, a later call reports, `close` at the latest. Copies of
/// tensors take at most 128 MiB, which are used again in each step. Where there is no room left, a call waits for it; a
/// tensor that is larger than all the room is not copied, and the call waits until it is recorded. *Processes*: a
/// recorder belongs to the process that opened it. After a fork, calls fail in the child. *Lifetime*: arguments are
/// borrowed for the duration of a call. *ABI*: within one SONAME, no function, value or struct changes, and none goes.
/// `lockstep_recorder_config` may grow at its end; its `size` says which one the caller knows.

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LOCKSTEP_RECORDER_API __attribute__((visibility("default")))
#else
#define LOCKSTEP_RECORDER_API
#endif

/// The SONAME's number. It changes only when programs have to be compiled again.
#define LOCKSTEP_RECORDER_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

/// How a call ended.
typedef enum lockstep_status {
  LOCKSTEP_OK = 0,
  LOCKSTEP_MISUSE = 1,   ///< an argument, or the order of calls, is wrong
  LOCKSTEP_SYSTEM = 2,   ///< disk full, no permission, no memory; the recorder takes nothing more
  LOCKSTEP_INTERNAL = 3  ///< a bug of this library
} lockstep_status;

/// Element type of a tensor, named as in PyTorch.
typedef enum lockstep_dtype {
  LOCKSTEP_BOOL = 0,  ///< one byte
  LOCKSTEP_UINT8 = 1,
  LOCKSTEP_INT8 = 2,
  LOCKSTEP_INT16 = 3,
  LOCKSTEP_INT32 = 4,
  LOCKSTEP_INT64 = 5,
  LOCKSTEP_FLOAT16 = 6,   ///< IEEE 754 binary16
  LOCKSTEP_BFLOAT16 = 7,  ///< the upper half of a binary32
  LOCKSTEP_FLOAT32 = 8,
  LOCKSTEP_FLOAT64 = 9
} lockstep_dtype;

/// A tensor in the memory of the processor. This struct never grows.
typedef struct lockstep_tensor {
  lockstep_dtype dtype;
  size_t dimensions;       ///< 0: a scalar
  const int64_t* shape;    ///< `dimensions` extents, each 0 or more; may be NULL for a scalar
  const int64_t* strides;  ///< `dimensions` strides in elements, also 0 or negative; NULL: dense, row-major
  const void* data;        ///< the element of index 0, …, 0, aligned to its size; may be NULL without elements
} lockstep_tensor;

/// Where the part of a tensor that a rank holds lies in it. This struct never grows.
typedef struct lockstep_shard {
  const int64_t* whole;    ///< extents of the whole tensor, as many as the part has; NULL: the rank holds all of it
  const int64_t* offset;   ///< index of the part's first element, the same
  const char* mesh;        ///< names and sizes of the dimensions of ranks, for people: "dp_shard=2,tp=2"; may be NULL
  const char* placements;  ///< one for each of them, as PyTorch writes them: "S(0),R"; may be NULL
  const int64_t* coordinate;  ///< of the rank in them
  size_t mesh_dimensions;
} lockstep_shard;

/// How to record. Set what you do not use to zero:
/// `lockstep_recorder_config config = {.size = sizeof config, .folder = "runs/a", .world_size = 1};`
typedef struct lockstep_recorder_config {
  size_t size;         ///< sizeof(lockstep_recorder_config)
  const char* folder;  ///< of the run, for all its ranks; made where it is not there. The trace is `rank<rank>.jsonl`;
                       ///< a few bytes in `rank<rank>.progress` tell `lockstep run` where the rank is
  int64_t rank;        ///< 0 … world_size − 1
  int64_t world_size;
  const char* header;           ///< JSON object for the trace's first line (docs/recording.md); NULL: nothing to say
  const char* const* channels;  ///< names of the channels to keep; NULL: all
  size_t channel_count;
  int64_t every;  ///< keep the steps −1, 0, every, 2·every, …; 0: all
} lockstep_recorder_config;

/// The recorder of one rank.
typedef struct lockstep_recorder lockstep_recorder;

/// LOCKSTEP_RECORDER_ABI of the library that is loaded.
LOCKSTEP_RECORDER_API int lockstep_recorder_abi(void);

/// Starts a trace. A trace that is there already is never overwritten.
/// On failure `*recorder` is NULL, and `lockstep_recorder_error(NULL)` says why.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_open(const lockstep_recorder_config* config,
                                                             lockstep_recorder** recorder);

/// Begins a step. Step −1 is the state before the first update; step s ends with s + 1 updates done. Steps grow.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_begin_step(lockstep_recorder* recorder, int64_t step);

/// Sets `*wanted` to 1 where the current step would keep records of this channel, else to 0: ask before costly work.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_wants(lockstep_recorder* recorder, const char* channel,
                                                              int* wanted);

/// Records the digest of a tensor; of a floating one also its norm, its largest magnitude and a sketch.
/// `channel`: "samples", "input", "rng", "loss", "gradient.local", "gradient", "optimizer", "weight", "buffer", "ema",
/// "metric", "ledger" or "collective". `name`: UTF-8, not empty; comparisons find the other side's record by it.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_tensor(lockstep_recorder* recorder, const char* channel,
                                                               const char* name, const lockstep_tensor* tensor);

/// The same for many tensors: tensor i becomes the record `names[i]` of `channels[i]`. All are looked at before one is
/// recorded. NULL pointers are allowed where `count` is 0.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_tensors(lockstep_recorder* recorder, size_t count,
                                                                const char* const* channels, const char* const* names,
                                                                const lockstep_tensor* tensors);

/// The same for parts of tensors: tensor i is the part `shards[i]` of one. A rank without any element of it records a
/// part of no elements: so a reader knows that nothing is missing. No rank talks to another one.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_shards(lockstep_recorder* recorder, size_t count,
                                                               const char* const* channels, const char* const* names,
                                                               const lockstep_tensor* tensors,
                                                               const lockstep_shard* shards);

/// Records a float64 with its value: a learning rate, a metric.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_number(lockstep_recorder* recorder, const char* channel,
                                                               const char* name, double value);

/// Records an integer with its value: a counter, a denominator.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_integer(lockstep_recorder* recorder, const char* channel,
                                                                const char* name, int64_t value);

/// Records integers with their values: the ids of samples. `values` may be NULL where `count` is 0.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_integers(lockstep_recorder* recorder, const char* channel,
                                                                 const char* name, const int64_t* values, size_t count);

/// Records a text: a collective operation. Bytes that are no UTF-8 count, but cannot be shown.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_text(lockstep_recorder* recorder, const char* channel,
                                                             const char* name, const char* text);

/// Ends the step. Its line reaches the operating system within milliseconds after its last digest; a later call reports
/// that it could not.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_end_step(lockstep_recorder* recorder);

/// Forgets the step that has begun, with its records: a training that ends before its update has no such step.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_drop_step(lockstep_recorder* recorder);

/// Holds back what is recorded from now on: which step it belongs to is not known yet. With `holding` 0, records belong
/// to the step again, and what is held back waits. It may wait beyond the step's end, for the next one.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_hold(lockstep_recorder* recorder, int holding);

/// Adds what was held back to the step that has begun, and holds nothing back from now on. In it the record `names[i]`
/// of `channels[i]` is called `new_names[i]` there. NULL pointers are allowed where `count` is 0.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_release(lockstep_recorder* recorder, size_t count,
                                                                const char* const* channels, const char* const* names,
                                                                const char* const* new_names);

/// Bytes of a digest as text, with the zero at its end.
#define LOCKSTEP_RECORDER_DIGEST_SIZE 33

/// Writes a tensor's digest as a trace has it: 32 hexadecimal digits. `text` has room for LOCKSTEP_RECORDER_DIGEST_SIZE
/// bytes. It needs no recorder: on failure `lockstep_recorder_error(NULL)` says why.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_digest(const lockstep_tensor* tensor, char* text);

/// Finishes the trace. Whatever the status, the recorder takes nothing more; it still has to be freed.
LOCKSTEP_RECORDER_API lockstep_status lockstep_recorder_close(lockstep_recorder* recorder);

/// Frees a recorder; NULL is allowed. Without a successful close before, the trace stays torn: so a training that fails
/// abandons its trace.
LOCKSTEP_RECORDER_API void lockstep_recorder_free(lockstep_recorder* recorder);

/// The recorder's last failure; for NULL, this thread's last failure without a recorder. Empty: none. It says
/// what failed, where, what was expected and found, and what to do, each on a line of its own.
/// *Lifetime*: until this thread's next call of this function.
LOCKSTEP_RECORDER_API const char* lockstep_recorder_error(const lockstep_recorder* recorder);

#ifdef __cplusplus
}
#endif

#endif  // LOCKSTEP_RECORDER_H
