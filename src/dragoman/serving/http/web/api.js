// Requests to the server that this page came from. All addresses are relative, so that the page works under any path.

const STORED = "dragoman-key";
const DETECTED = 1000; // characters whose language is detected

export const apiKey = {
  get value() {
    return sessionStorage.getItem(STORED) ?? "";
  },
  set value(key) {
    key ? sessionStorage.setItem(STORED, key) : sessionStorage.removeItem(STORED);
  },
};
// Called when the server refuses the key.
export const onKeyRefused = { call: () => {} };

async function send(path, options) {
  const headers = { ...(apiKey.value ? { Authorization: `Bearer ${apiKey.value}` } : {}), ...options.headers };
  let response;
  try {
    response = await fetch(path, { credentials: "omit", cache: "no-store", ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. It may have been stopped, or the network is down.");
  }
  if (response.ok) return response;
  const message = await messageOf(response);
  if (response.status === 401) onKeyRefused.call(message);
  throw new Error(message);
}

async function messageOf(response) {
  const body = await response.json().catch(() => ({}));
  const found = body.error?.message ?? body.error ?? body.message ?? body.detail;
  const text = typeof found === "string" && found ? found : `The server answered with status ${response.status}.`;
  const wait = Number(response.headers.get("retry-after"));
  return wait ? `${text} Try again in ${wait} s.` : text;
}

const json = (body, signal) => ({
  method: "POST",
  signal,
  body: JSON.stringify(body),
  headers: { "Content-Type": "application/json" },
});

export const get = async (path) => (await send(path, {})).json();
export const post = async (path, body, signal) => (await send(path, json(body, signal))).json();

// The interface of LibreTranslate reads the key from the body. The beginning of a text tells its language.
export const detect = (text, signal) =>
  post("detect", { q: text.slice(0, DETECTED), api_key: apiKey.value || undefined }, signal);
// Return the address of the translation, and how many of its texts a person should look at.
export async function translateFile(file, source, target, signal) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ source, target, api_key: apiKey.value }))
    if (value) form.append(name, value);
  form.append("file", file);
  const response = await send("translate_file", { method: "POST", body: form, signal });
  const { translatedFileUrl } = await response.json();
  const address = `download_file/${translatedFileUrl.split("/download_file/").pop()}`;
  return { address, toReview: Number(response.headers.get("x-texts-to-review")) };
}

// Yield the values of server-sent events.
export async function* stream(path, body, signal) {
  const response = await send(path, json(body, signal));
  let rest = "";
  for await (const text of texts(response.body.pipeThrough(new TextDecoderStream()))) {
    const events = (rest + text).split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      const data = event
        .split(/\r?\n/)
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).trim())
        .join("\n");
      if (!data || data === "[DONE]") continue;
      const value = JSON.parse(data);
      if (value.error) throw new Error(value.error.message ?? value.error);
      yield value;
    }
  }
}

async function* texts(readable) {
  const reader = readable.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
  } finally {
    await reader.cancel().catch(() => {});
  }
}
