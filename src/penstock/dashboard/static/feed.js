// Hears what the server sends, for as long as the page is open, and says how it stands.

const RETRY_MS = 1000;
const PATIENCE_MS = 5000; // a frame comes every second or two, also where nothing has changed
const TOKEN_KEY = "penstock-token";

/** The token, which the page keeps for as long as its tab is open. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN_KEY) ?? "",
  set: (value) => sessionStorage.setItem(TOKEN_KEY, value),
};

function headers(more = {}) {
  return token.get() === "" ? more : { ...more, Authorization: `Bearer ${token.get()}` };
}

/** Asks the server for something, and answers it, or throws an error with what the server said. */
export async function ask(path, body) {
  const sent = body === undefined
    ? { headers: headers() }
    : { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, sent);
  } catch {
    throw new Error("the server does not answer");
  }
  const told = await response.json().catch(() => ({}));
  if (response.ok) return told;
  const failure = new Error(told.error ?? `the server says ${response.status}`);
  failure.status = response.status;
  throw failure;
}

/** Is the stream of figures. It begins anew, with all figures, when it was lost. */
export class Feed {
  constructor({ begun, frame, state }) {
    this.tell = { begun, frame, state };
    this.abort = new AbortController();
    this.heard = 0;
    setInterval(() => this.lookForSilence(), 1000);
  }

  /** Runs for ever. */
  async run() {
    for (;;) {
      try {
        await this.listen();
        this.tell.state("lost");
      } catch (error) {
        this.tell.state(error.status === 401 || error.status === 403 ? "stranger" : "lost", error.message);
      }
      await new Promise((resolve) => { this.wake = resolve; setTimeout(resolve, RETRY_MS); });
    }
  }

  /** Tries again at once, as with another token. */
  again() {
    this.abort.abort();
    this.wake?.();
  }

  async listen() {
    this.abort = new AbortController();
    this.heard = performance.now();
    const response = await fetch("live", { headers: headers(), signal: this.abort.signal, cache: "no-store" });
    if (!response.ok) {
      const told = await response.json().catch(() => ({}));
      throw Object.assign(new Error(told.error ?? ""), { status: response.status });
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    let first = true;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const line = text.slice(0, end);
        text = text.slice(end + 2);
        if (!line.startsWith("data: ")) continue;
        this.heard = performance.now();
        if (first) this.tell.begun();
        first = false;
        this.tell.state("live");
        this.tell.frame(JSON.parse(line.slice(6)));
      }
    }
  }

  lookForSilence() {
    if (this.heard > 0 && performance.now() - this.heard > PATIENCE_MS) this.abort.abort();
  }
}
