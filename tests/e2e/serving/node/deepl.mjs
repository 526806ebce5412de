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

// A glossary of each version, from its creation to its end.
async function glossary() {
  const made = await client.createGlossary('g', 'en', 'de', new deepl.GlossaryEntries({ entries: { dog: 'Hund' } }));
  const entries = (await client.getGlossaryEntries(made)).entries();
  const listed = (await client.listGlossaries()).some((one) => one.glossaryId === made.glossaryId);
  await client.deleteGlossary(made);
  return { name: made.name, count: made.entryCount, entries, listed, after: await failure(() => client.getGlossary(made.glossaryId)) };
}

async function multilingualGlossary() {
  const dictionary = (sourceLangCode, targetLangCode, entries) =>
    ({ sourceLangCode, targetLangCode, entries: new deepl.GlossaryEntries({ entries }) });
  const dictionaries = [dictionary('en', 'de', { dog: 'Hund' }), dictionary('de', 'fr', { Hund: 'chien' })];
  const made = await client.createMultilingualGlossary('g', dictionaries);
  const updated = await client.updateMultilingualGlossaryDictionary(made, dictionary('en', 'de', { cat: 'Katze' }));
  await client.replaceMultilingualGlossaryDictionary(made, dictionary('de', 'fr', { Katze: 'chat' }));
  const { entries } = await client.getMultilingualGlossaryDictionaryEntries(made, 'de', 'fr');
  await client.deleteMultilingualGlossaryDictionary(made, 'en', 'de');
  const left = (await client.getMultilingualGlossary(made.glossaryId)).dictionaries;
  await client.deleteMultilingualGlossary(made);
  return {
    counts: updated.dictionaries.map((one) => one.entryCount),
    entries: entries.entries(),
    left: left.map((one) => [one.sourceLangCode, one.targetLangCode]),
    after: await failure(() => client.getMultilingualGlossary(made.glossaryId)),
  };
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
  glossary: await glossary(),
  multilingualGlossary: await multilingualGlossary(),
  usage: await client.getUsage(),
  document: { status: status.status, billed: status.billedCharacters, content: fs.readFileSync(result, 'utf8') },
  errors: {
    language: await failure(() => client.translateText(text, 'en', 'ja')),
    formality: await failure(() => client.translateText(text, 'en', 'de', { formality: 'more' })),
    context: await failure(() => client.translateText(text, 'en', 'de', { context: 'a letter' })),
    glossary: await failure(() => client.createGlossary('g', 'en', 'ja', new deepl.GlossaryEntries({ entries: { a: 'b' } }))),
    file: await failure(() => client.translateDocument(Buffer.from('MZ'), path.join(folder, 'b'), 'en', 'de', { filename: 'a.exe' })),
  },
}));
