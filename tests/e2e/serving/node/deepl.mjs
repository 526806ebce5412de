// Calls the published client of DeepL for Node.js, and prints what it returns: node deepl.mjs URL FOLDER
import * as deepl from 'deepl-node';
import fs from 'node:fs';
import path from 'node:path';

const [url, folder] = process.argv.slice(2);
const client = new deepl.DeepLClient('any', { serverUrl: url, maxRetries: 0 });
const text = 'two dogs play .';

async function failure(call) {
  try {
    await call();
  } catch (error) {
    return [error.constructor.name, error.message];
  }
  return null;
}

const source = path.join(folder, 'a.txt');
const result = path.join(folder, 'a.de.txt');
fs.writeFileSync(source, text + '\n');
const status = await client.translateDocument(source, result, 'en', 'de');

console.log(JSON.stringify({
  one: await client.translateText(text, 'en', 'de'),
  list: await client.translateText([text, 'the sea'], 'en', 'de'),
  detected: await client.translateText('Die Katze schläft in dem Haus am Meer.', null, 'fr'),
  html: await client.translateText(`<p>${text}<code>${text}</code></p>`, 'en', 'de', { tagHandling: 'html' }),
  xml: await client.translateText(`<a>${text}<x>${text}</x></a>`, 'en', 'de', { tagHandling: 'xml', ignoreTags: ['x'] }),
  fast: await client.translateText(text, 'en', 'de', { modelType: 'latency_optimized' }),
  sources: await client.getSourceLanguages(),
  targets: await client.getTargetLanguages(),
  pairs: await client.getGlossaryLanguagePairs(),
  usage: await client.getUsage(),
  document: { status: status.status, billed: status.billedCharacters, content: fs.readFileSync(result, 'utf8') },
  errors: {
    language: await failure(() => client.translateText(text, 'en', 'ja')),
    formality: await failure(() => client.translateText(text, 'en', 'de', { formality: 'more' })),
    context: await failure(() => client.translateText(text, 'en', 'de', { context: 'a letter' })),
    glossary: await failure(() => client.createGlossary('g', 'en', 'de', new deepl.GlossaryEntries({ entries: { a: 'b' } }))),
    glossaries: await failure(() => client.listMultilingualGlossaries()),
    file: await failure(() => client.translateDocument(Buffer.from('MZ'), path.join(folder, 'b'), 'en', 'de', { filename: 'a.exe' })),
  },
}));
