// Which kernels this processor can run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels.hpp"

namespace dragoman {

/// Names of what can be used here, best first.
std::vector<std::string> instruction_sets();

/// The kernels of that name, or of the best; throws std::invalid_argument for what cannot be used here.
Kernels kernels_of(const std::optional<std::string>& name);

}  // namespace dragoman
