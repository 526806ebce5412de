// Translate HTML fragments, one on each line, with @browsermt/bergamot-translator and the files of a Firefox model.
// usage: node bergamot.mjs PACKAGE_FOLDER MODEL_FOLDER < fragments > translations
// The worker of version 0.4.9 is a CommonJS module: first write {"type": "commonjs"} into PACKAGE_FOLDER/worker/package.json.
import { readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";

const [packageFolder, modelFolder] = process.argv.slice(2);
const { BatchTranslator, TranslatorBacking } = await import(join(resolve(packageFolder), "translator.js"));
const pair = { from: "en", to: "xx" };

function read(pattern) {
  const bytes = readFileSync(join(modelFolder, readdirSync(modelFolder).find((name) => pattern.test(name))));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
}

class LocalFiles extends TranslatorBacking {
  async loadModelRegistery() {
    return [{ ...pair, files: {} }];
  }
  async loadTranslationModel() {
    return { model: read(/^model.*\.bin$/), shortlist: read(/^lex.*\.bin$/), vocabs: [read(/\.spm$/)], config: {} };
  }
}

const translator = new BatchTranslator({}, new LocalFiles({}));
const lines = readFileSync(0, "utf8").split("\n").slice(0, -1);
const answers = await Promise.all(lines.map((text) => translator.translate({ ...pair, text, html: true })));
const output = answers.map((one) => one.target.text.replaceAll("\n", " ") + "\n").join("");
await translator.delete();
process.stdout.write(output, () => process.exit(0)); // an exit before the end of the write loses lines
