// The test page: documents are strings, handlers come from the test, everything that happens is written down.
import { keptIn, openSession, persistStorage, planTextEdit, refuse, upgrade } from "/pkg/dist/index.js";

const EVENTS = [
  "connectionchange",
  "statuschange",
  "durabilitychange",
  "recordchange",
  "recordgone",
  "opened",
  "docchanged",
  "problem",
  "crashed",
];
const AsyncFunction = Object.getPrototypeOf(async () => undefined).constructor;

/** A gate that handlers wait at: `await gate("name")`. */
const gates = new Map();
function gate(name) {
  if (!gates.has(name)) {
    let open;
    const passed = new Promise((resolve) => (open = resolve));
    gates.set(name, { passed, open, isWaitedAt: false });
  }
  return gates.get(name);
}
const atGate = (name) => {
  gate(name).isWaitedAt = true;
  return gate(name).passed;
};

class TestDocument {
  constructor(id, options) {
    this.id = id;
    this.options = options;
    this.text = options.text ?? "";
    this.handle = undefined;
    this.handler = undefined;
    /** Every call of the handler: patch id and delivery. */
    this.calls = [];
    /** The patches whose effect was made. */
    this.effects = [];
    /** The records that reconcile was asked about. */
    this.asked = [];
  }

  apply(patch) {
    this.calls.push({ patchId: patch.patchId, delivery: patch.delivery });
    return this.handler === undefined ? this.effect(patch) : this.handler(patch, this, { refuse, gate: atGate });
  }

  /** Makes a text edit's effect. */
  effect(patch) {
    const plan = planTextEdit(this.text, patch.body);
    globalThis.pkSteps?.step();
    this.text = this.text.slice(0, plan.at) + plan.insert + this.text.slice(plan.at + plan.delete);
    this.effects.push(patch.patchId);
    globalThis.pkSteps?.step();
  }

  reconcile(record) {
    this.asked.push(record.patchId);
    return this.options.reconcile;
  }
}

/** For tests that open more than one session. */
globalThis.openSessionHere = openSession;

globalThis.pk = {
  session: undefined,
  docs: new Map(),
  events: [],
  binaries: [],
  /** How often it was said that storage is held up. */
  blocked: 0,
  errors: globalThis.pkErrors,

  async start({ socket, principal = "ws/tester", http, token, durability = "strict", storageTimeoutMs, handlerTimeoutMs, binaryType }) {
    const headers = () => ({ authorization: `Bearer ${token}` });
    const ticket = async () => {
      const answer = await fetch(`${http}/tickets`, { method: "POST", headers: headers() });
      if (!answer.ok) throw new Error(`no ticket: ${answer.status}`);
      return `${http.replace(/^http/, "ws")}/socket?ticket=${encodeURIComponent((await answer.json()).ticket)}`;
    };
    pk.session = await openSession({
      principal,
      socket: { url: socket === undefined ? ticket : () => socket, ...(binaryType === undefined ? {} : { binaryType }) },
      ...(http === undefined ? {} : { http: { baseUrl: http, headers } }),
      storage: {
        durability,
        ...(storageTimeoutMs === undefined ? {} : { timeoutMs: storageTimeoutMs }),
        onBlocked: () => (pk.blocked += 1),
      },
      ...(handlerTimeoutMs === undefined ? {} : { handlerTimeoutMs }),
    });
    for (const type of EVENTS) {
      pk.session.addEventListener(type, ({ detail }) => pk.events.push({ type, detail }));
    }
    pk.session.addEventListener("binary", ({ detail }) => pk.binaries.push(detail));
  },

  async open(id, options = {}) {
    const doc = new TestDocument(id, options);
    pk.docs.set(id, doc);
    doc.handle = await pk.session.openDocument(id, {
      apply: (patch) => doc.apply(patch),
      ...(options.reconcile === undefined ? {} : { reconcile: (record) => doc.reconcile(record) }),
      ...(options.unconfirmed === undefined ? {} : { unconfirmedEdits: () => options.unconfirmed }),
      ...(options.restored === undefined ? {} : { restored: options.restored }),
      ...(options.carried === undefined ? {} : { carried: options.carried }),
      homed: options.homed ?? "elsewhere",
      baseSeq: options.baseSeq ?? 1,
    });
  },

  /** Sets a document's handler: a function body of `patch`, `doc` and `{ refuse, gate }`. */
  handle(id, body, isAsync) {
    const make = isAsync ? AsyncFunction : Function;
    pk.docs.get(id).handler = new make("patch", "doc", "{ refuse, gate }", body);
  },

  /** The host's own database, with a store of drafts and the one for marks. */
  async drafts({ marks = true } = {}) {
    const request = indexedDB.open("drafts", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("drafts");
      if (marks) upgrade(request.result);
    };
    return new Promise((done, failed) => {
      request.onsuccess = () => done(request.result);
      request.onerror = () => failed(request.error);
    });
  },

  /** Keeps a document and its marks in one transaction of the host's database. */
  async keep(id) {
    const database = await pk.drafts();
    const doc = pk.docs.get(id);
    const transaction = database.transaction(["drafts", "patchkeep"], "readwrite", { durability: "strict" });
    transaction.objectStore("drafts").put(doc.text, id);
    doc.handle.putIn(transaction, doc.handle.mark());
    await new Promise((done) => transaction.addEventListener("complete", done));
    database.close();
  },

  /** What was kept: the text, and the patches it holds. */
  async kept(id) {
    const database = await pk.drafts();
    const transaction = database.transaction(["drafts", "patchkeep"]);
    const carried = await keptIn(transaction, id);
    const request = transaction.objectStore("drafts").get(id);
    const text = await new Promise((done) => (request.onsuccess = () => done(request.result)));
    database.close();
    return { text, carried };
  },

  persistStorage,

  save(id) {
    const doc = pk.docs.get(id);
    return doc.handle.save(() => doc.text);
  },

  /** The next request arrives, and its answer does not. */
  loseNextAnswer() {
    const plain = globalThis.fetch;
    globalThis.fetch = async (...request) => {
      globalThis.fetch = plain;
      await plain(...request);
      throw new TypeError("the answer was lost");
    };
  },

  eventsOf: (type) => pk.events.filter((event) => event.type === type).map(({ detail }) => detail),
  record: (patchId) => pk.session.records().find((record) => record.patchId === patchId),
  openGate: (name) => gate(name).open(),
  isAtGate: (name) => gate(name).isWaitedAt,

  /** Length and SHA-256 of every binary frame, in the order they came. */
  async binaryDigests() {
    return Promise.all(
      pk.binaries.map(async (data) => {
        const bytes = data instanceof Blob ? await data.arrayBuffer() : data;
        const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
        return { bytes: bytes.byteLength, sha256: [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("") };
      }),
    );
  },
};
