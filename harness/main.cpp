// lockstep: do these trainings compute the same thing, and if not, where is the first difference and why?

#include "harness/app/command_line.h"
#include "harness/base/version.h"

int main(int argc, char** argv) { return lockstep::app::run_command_line(argc, argv, lockstep::version()); }
