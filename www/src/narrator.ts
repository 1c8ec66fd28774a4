/* Puts what the session reports into sentences: each thing once, in the order it came. */

import type { ConnectionState, DurabilityChange, Problem, RecordView } from "patchkeep";
import { shortId } from "./dom.ts";
import type { Activity } from "./activity.ts";

/** Tells the activity list. */
export class Narrator {
  readonly #activity: Activity;
  readonly #known = new Map<string, RecordView>();
  #connection = "";

  constructor(activity: Activity) {
    this.#activity = activity;
  }

  /** A record is new or changed. */
  record(record: RecordView): void {
    const key = `${record.doc} ${record.patchId}`;
    const before = this.#known.get(key);
    this.#known.set(key, record);
    const name = `patch ${shortId(record.patchId)}`;
    if (record.state !== before?.state) this.#state(name, record);
    if (record.replays > (before?.replays ?? 0)) {
      this.#activity.say(`${name} came again (delivery ${record.delivery}): acknowledged again, not applied again`, "good");
    }
    if (record.confirmed !== before?.confirmed && record.confirmed !== undefined) {
      this.#activity.say(`${name}: the server has recorded it as ${record.confirmed}`, record.confirmed === "done" ? "good" : "info");
    }
  }

  /** A record is gone. */
  gone(doc: string, patchId: string): void {
    this.#known.delete(`${doc} ${patchId}`);
    this.#activity.say(`patch ${shortId(patchId)}: no effect here; it may be handed out again`);
  }

  /** The connection changed. */
  connection(connection: ConnectionState): void {
    if (connection.state === this.#connection) return;
    this.#connection = connection.state;
    if (connection.state === "live") this.#activity.say("connected", "good");
    else if (connection.state === "waiting") this.#activity.say("the connection is gone; trying again by itself", "warn");
    else if (connection.state === "held") this.#activity.say(`the server refused the connection: ${connection.code}`, "bad");
  }

  /** Something went wrong without stopping anything. */
  problem({ code, detail, patchId }: Problem): void {
    this.#activity.say(`${code}${patchId === undefined ? "" : ` (patch ${shortId(patchId)})`}: ${detail}`, "warn");
  }

  /** The journal promises something else now. */
  durability({ durability, fault }: DurabilityChange): void {
    this.#activity.say(`the journal is ${durability} now${fault === undefined ? "" : `: ${fault}`}`, fault === undefined ? "info" : "bad");
  }

  #state(name: string, record: RecordView): void {
    switch (record.state) {
      case "applying":
        return this.#activity.say(`${name} for ${record.doc}: the intent is in the journal`);
      case "applied":
        return this.#activity.say(`${name}: applied to ${record.doc}, not in the stored document yet`);
      case "refused":
        return this.#activity.say(`${name}: refused: ${record.reason ?? "no reason given"}`, "warn");
      case "unknown":
        return this.#activity.say(`${name}: nobody can tell whether it took effect`, "bad");
    }
  }
}
