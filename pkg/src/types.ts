/** The values of the public surface: ids, records, states and outcomes. Ids are branded strings; times are in milliseconds. */

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** One plan of one edit, minted by the server. */
export type PatchId = Branded<"PatchId">;
/** A browsing context; survives reload. */
export type TabId = Branded<"TabId">;
/** One load of the page. */
export type ContextId = Branded<"ContextId">;
/** One lineage of a document's content in memory. */
export type Incarnation = Branded<"Incarnation">;
/** One journal database; another one means that the old journal is gone. */
export type JournalId = Branded<"JournalId">;

/** How firmly the journal holds what it was told. */
export type Durability = "strict" | "relaxed" | "memory";

/** Whether the session may act: `fenced` means that another context took the tab over and documents must be reloaded. */
export type SessionStatus = "live" | "fenced" | "closed" | "crashed";

/** `strong`: a Web Lock guards the tab id. `weak`: there are none here, and the id is new with every load. */
export type IdentityStrength = "strong" | "weak";

/** Why the server refused the connection. */
export type RejectCode =
  | "stale_epoch"
  | "unsupported_protocol"
  | "unauthorized"
  | "tab_not_yours"
  | "principal_mismatch"
  | "too_many_sockets"
  | "settled_elsewhere";

/** Where the connection is. `untilMs` is on the clock of `performance.now()`. */
export type ConnectionState =
  | { readonly state: "waiting"; readonly untilMs: number }
  | { readonly state: "connecting" }
  | { readonly state: "live" }
  | { readonly state: "held"; readonly code: RejectCode }
  | { readonly state: "suspended" }
  | { readonly state: "ended" };

/** Why a patch has no effect. */
export type RefusalReason =
  | "expired"
  | "unconfirmed_edits"
  | "handler_refused"
  | "handler_error"
  | "anchor_not_found"
  | "anchor_ambiguous"
  | "not_open"
  | "wrong_incarnation"
  | "digest_mismatch"
  | "patch_id_reused"
  | "malformed"
  | "too_large"
  | "busy"
  | "out_of_range"
  | "expect_mismatch"
  | "patch_failed";

/** Where a record is: `applying` (intent written), `applied`, `refused` (final), `unknown` (nobody can tell). */
export type RecordState = "applying" | "applied" | "refused" | "unknown";

/** What the server's own commit made of a patch. */
export type ConfirmedAs = "acked" | "done" | "refused" | "unknown";

/** What this tab knows of one patch. */
export interface RecordView {
  readonly patchId: PatchId;
  readonly doc: string;
  readonly state: RecordState;
  /** Why, where refused. */
  readonly reason?: RefusalReason;
  /** The content it was applied to. */
  readonly incarnation: Incarnation;
  /** Whether that content is the open one. */
  readonly current: boolean;
  /**
   * It was applied to content that is gone, and neither a confirmed save nor a local store is known to hold it: unless
   * the host finds it in the new content, it died unsaved with the old.
   */
  readonly leftBehind: boolean;
  /** The newest hand-out of it, or question about it. */
  readonly delivery: number;
  /** How often this context has acknowledged it again without applying it again. */
  readonly replays: number;
  /** A local store will bring the effect back. */
  readonly kept: boolean;
  /** A save that the server confirmed holds it. */
  readonly flushed: boolean;
  /** What the server's commit made of it, once it said so. */
  readonly confirmed?: ConfirmedAs;
  /** Server time, estimated, in ms since the epoch. */
  readonly receivedAt: number;
  /** Server time, estimated, in ms since the epoch. */
  readonly settledAt?: number;
  /** What the handler returned. */
  readonly result?: unknown;
}

/** A patch as the handler sees it. */
export interface Patch {
  readonly patchId: PatchId;
  readonly doc: string;
  /** The content it is to be applied to. */
  readonly incarnation: Incarnation;
  /** Counts hand-outs and questions: 1, 2, 3 … */
  readonly delivery: number;
  /** The edit. */
  readonly body: unknown;
  /** The edit as it came, in which no number has lost a digit. */
  readonly bodyText: string;
  /** Whether the caller wants it only where the host has no unconfirmed edits. */
  readonly guarded: boolean;
  /** Server time after which it must not be applied, in ms since the epoch. */
  readonly expiresAt: number;
  /** The stored version it was planned against. */
  readonly baseSeq?: number;
  /** Whether the effect is still wanted: ask before making it after an `await`. */
  stillWanted(): boolean;
}

/**
 * Makes the effect, synchronously or not. What it returns (JSON, at most 4 KiB) goes back to the caller.
 * `throw refuse(reason)` says that nothing was changed; any other exception leaves it open whether something was.
 */
export type ApplyHandler = (patch: Patch) => unknown;

/**
 * What a reconcile hook knows. `absent` means that it never took effect in anything this content descends from; not "I
 * do not see it": a person may have deleted it. Where you are not certain, say `unknown`.
 */
export type ReconcileAnswer = "present" | "absent" | "unknown";

/** How a document is opened. */
export interface OpenDocumentOptions {
  /** Makes the effect of a patch. */
  readonly apply: ApplyHandler;
  /**
   * Asked about patches whose effect a dead instance left open, and about one whose handler threw. Leave it out unless
   * the document itself can tell: after a reload, content that is `homed: "server"`, neither `restored` nor `carried`,
   * needs none, since what died unsaved is not in it. For everything else no hook means `unknown`.
   */
  readonly reconcile?: (record: RecordView) => ReconcileAnswer | Promise<ReconcileAnswer>;
  /** Whether there are edits that the server has not confirmed; guarded patches are refused then, and where this is missing. */
  readonly unconfirmedEdits?: () => boolean;
  /**
   * `server`: the content leaves this tab only in saves, and nothing else brings it back. `elsewhere` (default): there is
   * a draft store, a CRDT channel, … Only of the former can the server know what is absent.
   */
  readonly homed?: "server" | "elsewhere";
  /** The stored version that the content was loaded from. */
  readonly baseSeq: number;
  /** The content came back from the local store that `kept` speaks of. */
  readonly restored?: boolean;
  /**
   * Patches that the content holds though the stored version does not: what `keptIn` read beside it. Where the document
   * was open in this page before, say so even of none (`[]`): without that word nothing can be called absent.
   */
  readonly carried?: readonly PatchId[];
  /** Patch ids live inside the document itself, so that reconcile may say `absent` without other proof. */
  readonly marksInDocument?: boolean;
}

/** How the content of an open document is replaced. */
export interface ReplaceContentOptions {
  /** The stored version that the new content is based on. */
  readonly baseSeq: number;
  /**
   * Patches that the new content holds though that stored version does not: what a merge carried over. `[]` says that
   * there are none; left out, the content counts as `elsewhere`.
   */
  readonly carried?: readonly PatchId[];
  readonly restored?: boolean;
  readonly homed?: "server" | "elsewhere";
}

/** What a save came to. */
export type SaveOutcome =
  | { readonly status: "saved"; readonly seq: number }
  /**
   * The stored document had moved on. `patchIds` are those of this save that the stored text already holds; `inDoubt`
   * are those that it may hold: merge by comparing texts, never by applying these again (W3).
   */
  | {
      readonly status: "conflict";
      readonly seq: number;
      readonly patchIds: readonly PatchId[];
      readonly inDoubt: readonly PatchId[];
    }
  /** A later instance of this tab has taken over: reload the document. */
  | { readonly status: "fenced" }
  /**
   * Nothing was written. `save_not_announced` (409): the server has not heard of this content yet, since the socket is
   * down; save again once it is up.
   */
  | { readonly status: "refused"; readonly httpStatus: number; readonly code?: string }
  /** Nobody can tell whether it was committed; the next save finds out. */
  | { readonly status: "unknown"; readonly detail: string };

/** How a session is opened. */
export interface SessionOptions {
  /** The authenticated user in a workspace: the scope of storage, locks and ids. */
  readonly principal: string;
  readonly socket: {
    /** Asked for each attempt, so that it may carry a fresh ticket. A rejection counts as a failed attempt. */
    readonly url: () => string | Promise<string>;
    /** How binary frames reach the `binary` event; they are not looked at. Default `blob`. */
    readonly binaryType?: "blob" | "arraybuffer";
  };
  /** Where saves go; needed for `doc.save()`. */
  readonly http?: {
    /** Documents are below `${baseUrl}/docs/`. */
    readonly baseUrl: string;
    /** Asked for each request, never stored. */
    readonly headers?: () => HeadersInit | Promise<HeadersInit>;
  };
  readonly storage?: {
    /** `strict` (default), `relaxed` or `memory`; what is really given is `session.durability`. */
    readonly durability?: Durability;
    /** How long storage may take to open before the session goes on in memory (`storage_blocked`). Default 5 000. */
    readonly timeoutMs?: number;
    /** Called at once where another tab holds the opening up; it is waited for until `timeoutMs` has passed. */
    readonly onBlocked?: () => void;
  };
  /** How long a handler or reconcile hook may take before its patch is reported as unknown. Default 30 000. */
  readonly handlerTimeoutMs?: number;
  /** Aborting gives up opening, or closes the session. */
  readonly signal?: AbortSignal;
}

/** The journal's promise, and what made it change. */
export interface DurabilityChange {
  readonly durability: Durability;
  readonly journalId: JournalId;
  /** What failed: `storage_unavailable`, `storage_full`, `storage_evicted`, … */
  readonly fault?: StorageFault;
}

/** Why storage cannot be relied on. */
export type StorageFault =
  | "storage_unavailable"
  | "storage_full"
  | "storage_evicted"
  | "storage_corrupt"
  | "storage_newer_than_code"
  | "storage_closed"
  | "storage_blocked"
  | "storage_failed";

/** Something that went wrong without stopping anything. */
export interface Problem {
  readonly code: ProblemCode;
  readonly patchId?: PatchId;
  readonly detail: string;
}

/** What a problem was about. */
export type ProblemCode =
  | "malformed_frame"
  | "frame_too_large"
  | "protocol_error"
  | "result_dropped"
  | "handler_threw"
  | "handler_timeout"
  | "corrupt_record"
  | "frame_not_sent"
  | "connection_failing"
  | "connection_refused"
  | "clocks_disagree";

/** All that can be read of a session at one moment; the same object until something changes. */
export interface SessionSnapshot {
  readonly status: SessionStatus;
  readonly connection: ConnectionState;
  readonly durability: Durability;
  readonly fault: StorageFault | undefined;
  readonly tabId: TabId;
  readonly epoch: number;
  readonly contextId: ContextId;
  readonly journalId: JournalId;
  readonly identity: IdentityStrength;
  readonly records: readonly RecordView[];
}
