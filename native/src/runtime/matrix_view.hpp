// Row-major matrix that belongs to the caller.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragoman {

template <class Element>
struct MatrixView {
    Element* data;
    std::size_t rows, columns;

    Element* row(std::size_t index) const { return data + index * columns; }
    Element& at(std::size_t row, std::size_t column) const { return data[row * columns + column]; }
    std::size_t size() const { return rows * columns; }
};

using IdMatrix = MatrixView<const std::int32_t>;

}  // namespace dragoman
