#pragma once

#include <gtest/gtest.h>

#include "harness/base/precompiled.h"
