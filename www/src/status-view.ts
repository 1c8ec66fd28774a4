/* Connection, durability and identity: chips in the header, ids in the footer. */

import type { ConnectionState, SessionSnapshot } from "patchkeep";
import { byId, element, setText } from "./dom.ts";
import type { Tone } from "./activity.ts";

/** The connection in a word or two. */
export function connectionLabel(connection: ConnectionState): readonly [string, Tone] {
  switch (connection.state) {
    case "live":
      return ["live", "good"];
    case "connecting":
      return ["connecting", "warn"];
    case "waiting":
      return ["waiting to reconnect", "warn"];
    case "held":
      return [`refused: ${connection.code}`, "bad"];
    case "suspended":
      return ["suspended", "warn"];
    case "ended":
      return ["ended", "bad"];
  }
}

/** Chips and ids. */
export class StatusView {
  readonly #connection = byId("chip-connection", HTMLLIElement);
  readonly #durability = byId("chip-durability", HTMLLIElement);
  readonly #tab = byId("chip-identity", HTMLLIElement);
  readonly #identity = byId("identity", HTMLDListElement);

  /** Shows the session as it stands. */
  show(snapshot: SessionSnapshot, principal: string): void {
    const [word, tone] = snapshot.status === "live" ? connectionLabel(snapshot.connection) : ([snapshot.status, "bad"] as const);
    chip(this.#connection, word, tone);
    const strength: Tone = snapshot.durability === "strict" ? "good" : snapshot.durability === "relaxed" ? "info" : "warn";
    chip(this.#durability, snapshot.fault === undefined ? snapshot.durability : `${snapshot.durability}: ${snapshot.fault}`, strength);
    chip(this.#tab, `${snapshot.tabId.slice(-4)} · epoch ${snapshot.epoch}${snapshot.identity === "weak" ? " · weak" : ""}`, snapshot.identity === "weak" ? "warn" : "idle");
    const ids: readonly (readonly [string, string])[] = [
      ["principal", principal],
      ["tab", snapshot.tabId],
      ["epoch", String(snapshot.epoch)],
      ["context", snapshot.contextId],
      ["journal", snapshot.journalId],
    ];
    ids.forEach(([name, value], index) => {
      const at = this.#identity.children[index] ?? this.#identity.appendChild(element("div", {}, element("dt"), element("dd")));
      if (at.firstElementChild) setText(at.firstElementChild, name);
      if (at.lastElementChild) setText(at.lastElementChild, value);
    });
  }
}

function chip(target: HTMLElement, value: string, tone: Tone | "idle"): void {
  target.dataset["tone"] = tone;
  const strong = target.querySelector("b");
  if (strong) setText(strong, value);
}
