"""Write a GGUF file of llama.cpp again with all matrices as Q8_0: the same weights in the format that is compared.

python -m benchmarks.smollm2.quantize_to_q8_0 MODEL.gguf MODEL-q8_0.gguf
"""

import argparse
from pathlib import Path

import gguf
from gguf.quants import dequantize, quantize

Q8_0_FILE = 7
"""Number of the format in `general.file_type`."""


def write_q8_0(source: Path, target: Path) -> None:
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value = Q8_0_FILE if field.name == "general.file_type" else field.contents()
        of_items = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, field.types[0], sub_type=of_items)
    q8_0 = gguf.GGMLQuantizationType.Q8_0
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quantize(values, q8_0), raw_dtype=q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    write_q8_0(arguments.source, arguments.target)


if __name__ == "__main__":
    main()
