/* The demo page: what is loaded in which order, and who hears of what. */

import "./styles.css";
import { openSession, type RecordView, type Session } from "patchkeep";
import { Activity } from "./activity.ts";
import { byId, setText } from "./dom.ts";
import { FaultPanel } from "./faults.ts";
import { JournalView } from "./journal-view.ts";
import { Narrator } from "./narrator.ts";
import { Notices } from "./notices.ts";
import { OpenDocument } from "./open-document.ts";
import type { SaveState } from "./save-loop.ts";
import { Server, loadConfig, type DemoConfig } from "./server.ts";
import { StatusView } from "./status-view.ts";
import { Tabs } from "./tabs.ts";

const SAVE_WORDS: Readonly<Record<SaveState | "loading", string>> = {
  loading: "loading",
  clean: "saved",
  quiet: "not saved yet",
  saving: "saving",
  waiting: "not saved; trying again",
  held: "not saved",
};

const activity = new Activity();
const notices = new Notices();

/** Everything on the page that follows the session. */
class Page {
  readonly #session: Session;
  readonly #config: DemoConfig;
  readonly #server: Server;
  readonly #status = new StatusView();
  readonly #journal: JournalView;
  readonly #faults: FaultPanel;
  readonly #narrator = new Narrator(activity);
  readonly #tabs = new Tabs(() => this.#showDocument());
  readonly #documents = new Map<string, OpenDocument>();
  readonly #save = byId("save-now", HTMLButtonElement);

  constructor(session: Session, config: DemoConfig, server: Server) {
    this.#session = session;
    this.#config = config;
    this.#server = server;
    this.#journal = new JournalView(session.tabId, config.docs[0] ?? "");
    this.#faults = new FaultPanel(server, activity);
  }

  async start(): Promise<void> {
    for (const doc of this.#config.docs) {
      const context = { session: this.#session, server: this.#server, activity, notices, changed: (name: string) => this.#documentChanged(name) };
      this.#documents.set(doc, new OpenDocument(context, doc, this.#tabs.add(doc)));
    }
    this.#tabs.begin();
    this.#save.addEventListener("click", () => void this.#documents.get(this.#tabs.current)?.save());
    this.#listen();
    this.#sessionChanged();
    await Promise.all([...this.#documents.values()].map((document) => document.open()));
    await this.#faults.start(new AbortController().signal);
  }

  #listen(): void {
    const session = this.#session;
    session.subscribe(() => this.#sessionChanged());
    session.addEventListener("recordchange", ({ detail }) => this.#recordChanged(detail));
    session.addEventListener("recordgone", ({ detail }) => {
      this.#narrator.gone(detail.doc, detail.patchId);
      this.#documents.get(detail.doc)?.touch();
    });
    session.addEventListener("docchanged", ({ detail }) => this.#movedOn(detail.doc, detail.seq));
    session.addEventListener("opened", ({ detail }) => this.#movedOn(detail.doc, detail.seq));
    session.addEventListener("connectionchange", ({ detail }) => this.#narrator.connection(detail));
    session.addEventListener("problem", ({ detail }) => this.#narrator.problem(detail));
    session.addEventListener("durabilitychange", ({ detail }) => this.#narrator.durability(detail));
    session.addEventListener("statuschange", ({ detail }) => {
      if (detail === "live") return;
      for (const document of this.#documents.values()) document.end();
      const why = detail === "fenced" ? "Another tab has taken over this tab's identity." : `The session is ${detail}.`;
      activity.say(why, "bad");
      notices.show("session", "bad", "This page can no longer change its documents", [`${why} Copy what you need, then reload.`], [
        { label: "Reload", choose: () => location.reload() },
      ]);
    });
  }

  #recordChanged(record: RecordView): void {
    this.#narrator.record(record);
    const document = this.#documents.get(record.doc);
    document?.refreshMarks();
    document?.touch();
    if (record.replays > 0 || record.state !== "applying") void this.#faults.refresh();
  }

  #movedOn(doc: string, seq: number): void {
    this.#documents
      .get(doc)
      ?.movedOn(seq)
      .catch((error: unknown) => activity.say(`${doc}: seq ${seq} could not be loaded: ${said(error)}`, "warn"));
  }

  #sessionChanged(): void {
    this.#status.show(this.#session.getSnapshot(), this.#config.principal);
    this.#journal.show(this.#session.records());
  }

  #documentChanged(doc: string): void {
    this.#tabs.setDirty(doc, this.#documents.get(doc)?.dirty ?? false);
    if (doc === this.#tabs.current) this.#showDocument();
  }

  #showDocument(): void {
    const document = this.#documents.get(this.#tabs.current);
    const state = byId("save-state", HTMLSpanElement);
    const word = document?.saveState ?? "loading";
    state.dataset["state"] = word;
    setText(state, SAVE_WORDS[word]);
    this.#save.disabled = word !== "quiet" && word !== "waiting";
    setText(byId("doc-version", HTMLSpanElement), document === undefined || word === "loading" ? "–" : `based on seq ${document.baseSeq}`);
    document?.editor.view.requestMeasure();
  }
}

async function begin(): Promise<void> {
  const config = await loadConfig();
  const server = new Server(config);
  const session = await openSession({
    principal: config.principal,
    socket: { url: () => server.socketUrl() },
    http: { baseUrl: new URL("/api", location.href).href, headers: () => server.headers() },
    storage: { durability: "strict" },
  });
  await new Page(session, config, server).start();
}

function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

begin().catch((error: unknown) => {
  activity.say(`the page could not start: ${said(error)}`, "bad");
  notices.show("start", "bad", "The page could not start", [said(error)], [{ label: "Reload", choose: () => location.reload() }]);
});
