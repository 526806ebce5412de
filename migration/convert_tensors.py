import re
import sys

from safetensors import safe_open
from safetensors.numpy import save_file

MAP = [
    (r"around_cross_attention", "cross_attention_residual"),
    (r"around_attention", "attention_residual"),
    (r"around_feed_forward", "feed_forward_residual"),
    (r"attention\.distances\.of_keys", "attention.position_bias.key_embedding"),
    (r"attention\.distances\.of_values", "attention.position_bias.value_embedding"),
    (r"attention\.distances\.", "attention.position_bias."),
    (r"attention\.tree\.of_keys", "attention.tree.key_embedding"),
    (r"pattern\.of_keys", "pattern.key_projection"),
    (r"pattern\.of_values", "pattern.value_projection"),
    (r"^trunk\.", "backbone."),
    (r"^decoder\.feed\.", "decoder.input_feeding."),
    (r"decoder\.feed\.", "decoder.input_feeding."),
]
for f in sys.argv[1:]:
    with safe_open(f, framework="numpy") as h:
        meta = h.metadata()
        names = list(h.keys())
        t = {n: h.get_tensor(n) for n in names}
    out = {}
    for n, a in t.items():
        m = n
        for x, y in MAP:
            m = re.sub(x, y, m)
        out[m] = a
    if list(out) != names:
        save_file(out, f, metadata=meta)
        print(f, sum(a != b for a, b in zip(out, names)))
