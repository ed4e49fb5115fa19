#pragma once

namespace lockstep::launch {

/// Exit codes of a worker. Below 128, so that no scheduler takes them for a signal. kRefused and kUnsupported mean that
/// only before the first step; after it, they are failures like any other code.
enum class WorkerExit : int {
  kDone = 0,          ///< trained to the end, trace closed
  kFailed = 1,        ///< an exception out of the training itself
  kRefused = 2,       ///< the RunSpec or the environment is wrong: nothing was trained
  kResource = 4,      ///< the machine gave out, disk full for instance, or a file is damaged
  kPeerLost = 5,      ///< a collective failed, most likely because another rank went away
  kUnsupported = 77,  ///< this build or machine cannot run it
};

}  // namespace lockstep::launch
