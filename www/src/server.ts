/* What the page asks of the reference server over HTTP. */

import { count, fields, text, texts, type Fields } from "./check.ts";

/** What `/demo.json` hands to a page on this machine. */
export interface DemoConfig {
  readonly token: string;
  readonly principal: string;
  readonly docs: readonly string[];
}

/** A document as stored. */
export interface StoredDocument {
  readonly text: string;
  readonly seq: number;
}

/** How the server's fault switches stand. */
export interface FaultState {
  readonly loseNextAck: number;
  readonly loseNextAnswer: number;
  readonly loseNextSaveAnswer: number;
  readonly delayMs: number;
}

/** A change of the fault switches, in the server's words. */
export type FaultChange = Partial<{
  lose_next_ack: number;
  lose_next_answer: number;
  lose_next_save_answer: number;
  cut: true;
  restart: true;
  delay_ms: number;
}>;

/** An answer that was not 2xx. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
  constructor(
    readonly status: number,
    readonly code: string,
  ) {
    super(`${code} (${status})`);
  }
}

/** Asks the server for what the page needs to begin. */
export async function loadConfig(): Promise<DemoConfig> {
  const answer = fields(await read(await fetch("/demo.json", { cache: "no-store" })), "demo.json");
  return { token: text(answer, "token"), principal: text(answer, "principal"), docs: texts(answer, "docs") };
}

/** The reference server, as this principal. */
export class Server {
  readonly #token: string;
  readonly #principal: string;

  constructor(config: DemoConfig) {
    this.#token = config.token;
    this.#principal = config.principal;
  }

  /** Headers for one attempt; they name the principal they are for (T6). */
  headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#token}`, "patchkeep-principal": this.#principal };
  }

  /** The URL of one socket. A browser cannot set headers on it, so it carries a ticket that works once. */
  async socketUrl(): Promise<string> {
    const answer = fields(await this.#ask("/api/tickets", { method: "POST" }), "ticket");
    const url = new URL("/api/socket", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("ticket", text(answer, "ticket"));
    return url.href;
  }

  /** The document as stored now. */
  async document(doc: string): Promise<StoredDocument> {
    const path = doc.split("/").map(encodeURIComponent).join("/");
    const answer = fields(await this.#ask(`/api/docs/${path}`, { cache: "no-store" }), "document");
    return { text: text(answer, "text"), seq: count(answer, "seq") };
  }

  /** How the fault switches stand, or `undefined` where the server was started without them. */
  async faults(): Promise<FaultState | undefined> {
    return this.#faults({ cache: "no-store" });
  }

  /** Sets fault switches, and says how they stand then. */
  async setFaults(change: FaultChange): Promise<FaultState | undefined> {
    await this.#faults({ method: "POST", body: JSON.stringify(change) });
    return this.faults();
  }

  async #faults(init: RequestInit): Promise<FaultState | undefined> {
    const answer = await fetch("/faults", {
      ...init,
      headers: { ...this.headers(), ...(init.body == null ? {} : { "content-type": "application/json" }) },
    });
    if (answer.status === 404) return undefined;
    return faultState(fields(await read(answer), "faults"));
  }

  async #ask(path: string, init: RequestInit): Promise<unknown> {
    return read(await fetch(path, { ...init, headers: this.headers() }));
  }
}

function faultState(answer: Fields): FaultState {
  const or0 = (name: string): number => (name in answer ? count(answer, name) : 0);
  return {
    loseNextAck: or0("lose_next_ack"),
    loseNextAnswer: or0("lose_next_answer"),
    loseNextSaveAnswer: or0("lose_next_save_answer"),
    delayMs: or0("delay_ms"),
  };
}

async function read(answer: Response): Promise<unknown> {
  if (answer.ok) return answer.status === 204 ? {} : answer.json();
  throw new AnswerError(answer.status, await refusalCode(answer));
}

/** The server's own word for a refusal, where the body has one. */
async function refusalCode(answer: Response): Promise<string> {
  try {
    return text(fields(fields(await answer.json(), "refusal")["error"], "error"), "code");
  } catch {
    return `http_${answer.status}`;
  }
}
