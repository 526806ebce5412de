// What training computes, for the module that Python loads.
#pragma once

#include <nanobind/nanobind.h>

namespace dragoman {

void bind_learning(nanobind::module_& module);

}  // namespace dragoman
