#include "harness/base/error.h"
#include "harness/train/collective/backend.h"

namespace lockstep::train {

Backend make_nccl_backend(const Member&) { throw Unsupported({.what = "this worker was built without NCCL"}); }

}  // namespace lockstep::train
