// Python bindings of the fused training operations.
#pragma once

#include <nanobind/nanobind.h>

namespace dragoman {

void bind_cpu_ops(nanobind::module_& module);

}  // namespace dragoman
