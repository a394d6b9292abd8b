// @ts-check
// The server, or the files of an export that stand for it.

/** What the server refused, in its own words. */
export class Refused extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    super(typeof body?.error === "string" ? body.error : `the server answered ${status}`);
    this.status = status;
    this.body = body;
    this.kind = body?.kind ?? "";
  }
}

/** The server did not answer. */
export class Lost extends Error {
  constructor() {
    super("the server does not answer");
  }
}

const TOKEN = "twopc-token";
const RETRY_MS = 700;

/** The link's fragment, as parameters. */
export function fragment() {
  return new URLSearchParams(location.hash.slice(1));
}

/** The token of the link: once read it is kept for this tab alone, and no longer shown. */
function takeToken() {
  const given = fragment();
  const token = given.get("token");
  if (token === null) return sessionStorage.getItem(TOKEN) ?? "";
  sessionStorage.setItem(TOKEN, token);
  given.delete("token");
  history.replaceState(null, "", `${location.pathname}${location.search}#${given}`);
  return token;
}

/**
 * Where answers come from.
 *
 * @typedef {Server | Export} Source
 */

/** Requests to the server that this page came from, and to no other. */
export class Server {
  #token = takeToken();
  /** @type {Promise<void> | null} */
  #back = null;

  /** Nothing can be changed: it is an export. */
  readOnly = false;
  /** Called with true when the server stops answering, and with false when it answers again. */
  onLost = (/** @type {boolean} */ _lost) => {};

  /** Whether there is a token at all. */
  get linked() {
    return this.#token !== "";
  }

  /** The address that opens something again, here. @param {string} parameters as in a fragment */
  link(parameters) {
    return `${location.origin}${location.pathname}#token=${this.#token}&${parameters}`;
  }

  /** A link may bring another token: the server was started anew. */
  renew() {
    this.#token = takeToken();
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {any} [body]
   * @param {{signal?: AbortSignal, headers?: Record<string, string>}} [options]
   * @returns {Promise<Response>}
   */
  async #fetch(method, path, body, options = {}) {
    /** @type {Record<string, string>} */
    const headers = { "X-Twopc-Token": this.#token, ...options.headers };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      return await fetch(path, {
        method, headers, body: body === undefined ? undefined : JSON.stringify(body),
        cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer", signal: options.signal,
      });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new Lost();
    }
  }

  /**
   * Ask, and ask again when the server is back: of things that change nothing.
   *
   * @param {string} method
   * @param {string} path
   * @param {any} [body]
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  async ask(method, path, body, options = {}) {
    let again = false;
    for (;;) {
      const token = this.#token;
      try {
        return await this.tell(method, path, body, options);
      } catch (error) {
        // another link was opened while the server did not take that of before
        if (error instanceof Refused && error.kind === "token" && token !== this.#token) continue;
        // what worked on it has died, and another has taken its place
        if (error instanceof Refused && error.kind === "died" && !again) {
          again = true;
          continue;
        }
        if (!(error instanceof Lost)) throw error;
        await this.#untilBack();
        options.signal?.throwIfAborted();
      }
    }
  }

  /**
   * Ask once.
   *
   * @param {string} method
   * @param {string} path
   * @param {any} [body]
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  async tell(method, path, body, options = {}) {
    const response = await this.#fetch(method, path, body, options);
    const type = response.headers.get("Content-Type") ?? "";
    let content;
    try {
      content = type.includes("json") ? await response.json() : await response.text();
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new Lost(); // it died in the middle of its answer
    }
    if (!response.ok) throw new Refused(response.status, content);
    return content;
  }

  #untilBack() {
    this.#back ??= this.#wait().finally(() => { this.#back = null; });
    return this.#back;
  }

  async #wait() {
    this.onLost(true);
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      try {
        await this.#fetch("GET", "/api/files");
        break;
      } catch (error) {
        if (!(error instanceof Lost)) throw error;
      }
    }
    this.onLost(false);
  }

  /**
   * Server-sent events, read by a request: it can carry the token, and be stopped.
   *
   * @param {string} method
   * @param {string} path
   * @param {any} body
   * @param {(event: string, data: any) => void} see
   * @param {AbortSignal} signal
   */
  async stream(method, path, body, see, signal) {
    const response = await this.#fetch(method, path, body, { signal, headers: { Accept: "text/event-stream" } });
    if (!response.ok || response.body === null) throw new Refused(response.status, await response.json().catch(() => null));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      let chunk;
      try {
        chunk = await reader.read();
      } catch (error) {
        if (signal.aborted) throw error;
        throw new Lost();
      }
      if (chunk.done) return;
      held += chunk.value.replaceAll("\r\n", "\n");
      const whole = held.split("\n\n");
      held = whole.pop() ?? "";
      for (const block of whole) {
        const lines = block.split("\n");
        const event = lines.find((line) => line.startsWith("event:"))?.slice(6).trim() ?? "message";
        const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
        if (data) see(event, JSON.parse(data));
      }
    }
  }
}

/** An export: the answers to what its page can ask are files beside it. */
class Export {
  readOnly = true;
  onLost = (/** @type {boolean} */ _lost) => {};

  /** @param {any} index */
  constructor(index) {
    this.index = index;
  }

  renew() {}

  /** @param {string} parameters */
  link(parameters) {
    return `${location.origin}${location.pathname}#${parameters}`;
  }

  /** @param {string} method @param {string} path @param {any} [body] @param {any} [_options] @returns {Promise<any>} */
  async ask(method, path, body, _options) {
    const asked = new URL(path, location.href);
    if (asked.pathname === "/api/files") return this.index.listing;
    if (path === "/api/lessons") return this.#read(this.index.lessons);
    if (asked.pathname === "/api/lessons/answer") {
      return this.#read(this.index.answers[`${asked.searchParams.get("lesson")}.${asked.searchParams.get("question")}`]);
    }
    if (path === "/api/schema") return {};
    const name = asked.searchParams.get("path") ?? body?.path;
    const file = this.index.files.find((/** @type {any} */ each) => each.path === name);
    if (file === undefined) throw new Refused(404, { error: `there is no ${name} in this export`, kind: "missing" });
    if (asked.pathname === "/api/file") return this.#read(file.file);
    if (asked.pathname !== "/api/play") throw new Refused(405, { error: `an export cannot ${method} ${path}`, kind: "request" });
    const content = await this.#read(file.file);
    const listed = content.scenario?.orders.find((/** @type {any} */ each) => each.name === body.listed);
    const order = file.orders.find((/** @type {any} */ each) => each.name === body.listed);
    if (order === undefined || JSON.stringify(listed?.steps) !== JSON.stringify(body.order)) throw new Refused(404, { error: "this export holds the listed orders only", kind: "missing" });
    return this.#read(order.play);
  }

  /** @param {string} method @param {string} path @param {any} [body] @returns {Promise<any>} */
  tell(method, path, body) {
    return this.ask(method, path, body);
  }

  /** @param {any[]} _ */
  async stream(..._) {
    throw new Refused(405, { error: "an export computes nothing", kind: "request" });
  }

  /** @param {string} path relative to the index */
  async #read(path) {
    const response = await fetch(new URL(path, new URL("data/", document.baseURI)));
    if (!response.ok) throw new Refused(response.status, { error: `${path} is missing in this export`, kind: "missing" });
    return response.json();
  }
}

/** The server that the link is for; without a link, the export that this page belongs to. */
export async function connect() {
  const server = new Server();
  if (server.linked) return server;
  const response = await fetch(new URL("data/index.json", document.baseURI)).catch(() => null);
  return response?.ok ? new Export(await response.json()) : server;
}
