// Python bindings of the models in the arithmetic of `int8shiftAlphaAll`.
#pragma once

#include <nanobind/nanobind.h>

namespace dragoman {

void bind_int8_shift(nanobind::module_& module);

}  // namespace dragoman
