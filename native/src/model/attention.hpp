// Attention layers of a forward pass, divided among the threads by heads and rows.
#pragma once

#include <vector>

#include "model/beam_state.hpp"
#include "model/forward_pass.hpp"
#include "model/position_encoding.hpp"

namespace dragoman {

/// Consecutive rows of a pass that are the positions of one source.
struct SourceRows {
    std::size_t first, length;
};

/// Bidirectional self-attention within each source. `projected` holds queries, keys and values in rows of `width`.
void encoder_self_attention(const ForwardPass& pass, const KernelTable& kernels, const HeadLayout& heads,
                            const PositionEncoding& positions, float scale, const std::vector<SourceRows>& sources,
                            std::size_t width);

/// Cache entries of the rows of a decoder pass.
struct RowCaches {
    /// Position of each row.
    std::vector<std::size_t> positions;
    /// Entries of each row from position 0 to its own, and the entry that the row writes.
    std::vector<const std::byte* const*> history;
    std::vector<std::byte*> current;
    /// Whether rows attend to other rows of the same pass, as in prefill.
    bool rows_depend = false;
    /// In place of `history`, the previous state of each row for recurrent layers; null at the start.
    std::vector<const std::byte*> previous;
};

/// Causal self-attention of each row to its history and itself. Writes its key and value to the current entry.
void decoder_self_attention(const ForwardPass& pass, const KernelTable& kernels, const HeadLayout& heads,
                            const PositionEncoding& positions, float scale, const RowCaches& caches, std::size_t width);

/// Weights of one cross-attention layer: a row for each row of the pass, and in it `longest` columns for each head.
struct RecordedWeights {
    std::size_t layer, longest;
    MatrixView<float> rows;
};

/// Cross-attention of each row to its source; the `beam_size` rows of a source share each load of keys and values.
/// `recorded` may be null, and otherwise takes the weights of a pass with one row per source.
void cross_attention(const ForwardPass& pass, const KernelTable& kernels, const HeadLayout& heads, float scale,
                     const std::vector<const EncodedSource*>& sources, std::size_t beam_size, std::size_t width,
                     const RecordedWeights* recorded);

/// Store the cross-attention keys and values of all decoder layers, in rows of `width`, in the encoded sources.
void store_cross_kv(const ForwardPass& pass, const KernelTable& kernels, const std::vector<HeadLayout>& layers,
                    const std::vector<SourceRows>& rows, const std::vector<EncodedSource*>& sources, std::size_t width);

}  // namespace dragoman
