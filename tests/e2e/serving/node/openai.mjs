// Calls the published client of OpenAI for Node.js, and prints what it returns: node openai.mjs URL
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: 'any', maxRetries: 0 });
const sampled = { temperature: 1.5, seed: 7, max_tokens: 19 };
const messages = [{ role: 'user', content: 'dogs' }];

async function failure(call) {
  try {
    await call();
  } catch (error) {
    return { kind: error.constructor.name, status: error.status, code: error.code, param: error.param, message: error.message };
  }
  return null;
}

async function read(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

const completion = { model: 'story', prompt: ['two dogs', 'a cat'], n: 2, ...sampled };
const chat = { model: 'talk', messages, ...sampled };
const streamed = { stream: true, stream_options: { include_usage: true } };
const abandoned = await client.completions.create({ ...completion, max_tokens: 2000, stream: true });
for await (const _ of abandoned) break;

console.log(JSON.stringify({
  models: (await client.models.list()).data,
  completion: await client.completions.create(completion),
  completion_pieces: await read(await client.completions.create({ ...completion, ...streamed })),
  chat: await client.chat.completions.create(chat),
  chat_pieces: await read(await client.chat.completions.create({ ...chat, ...streamed })),
  chat_helper: await client.chat.completions.stream(chat).finalContent(),
  embeddings: await client.embeddings.create({ model: 'vectors', input: ['two dogs', 'a cat sits'] }),
  errors: {
    model: await failure(() => client.completions.create({ ...completion, model: 'gpt' })),
    parameter: await failure(() => client.completions.create({ ...completion, presence_penalty: 1 })),
    stream: await failure(() => client.completions.create({ ...completion, temperature: 3, stream: true })),
    template: await failure(() => client.chat.completions.create({ ...chat, model: 'story' })),
    address: await failure(() => client.responses.create({ model: 'talk', input: 'dogs' })),
    image: await failure(() => client.images.generate({ prompt: 'dogs' })),
  },
}));
