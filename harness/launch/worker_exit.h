#pragma once

namespace lockstep::launch {

/// Exit codes of a worker. They are below 128, so no scheduler takes them for a signal. kRefused and kUnsupported have
/// their meaning only before the first step; later they are plain failures.
enum class WorkerExit : int {
  kDone = 0,          ///< trained to the end, trace closed
  kFailed = 1,        ///< the training threw an exception
  kRefused = 2,       ///< RunSpec or environment is wrong; nothing was trained
  kResource = 4,      ///< out of memory or disk, or a file is damaged
  kPeerLost = 5,      ///< a collective failed, most likely because another rank ended
  kUnsupported = 77,  ///< this build or machine cannot run it
};

}  // namespace lockstep::launch
