/** The one place where the protocol's spelling (snake_case, JSON text) becomes the package's (camelCase, typed). */

import type { EngineSession } from "./engine.js";
import { PatchkeepError, type PatchkeepErrorCode } from "./errors.js";
import type {
  ConfirmedAs,
  ConnectionState,
  ContextId,
  Durability,
  DurabilityChange,
  Incarnation,
  JournalId,
  PatchId,
  Problem,
  ProblemCode,
  RecordState,
  RecordView,
  RefusalReason,
  RejectCode,
  SaveOutcome,
  SessionStatus,
  StorageFault,
  TabId,
} from "./types.js";

/** Who a session is, and how it stands. */
export interface SessionInfo {
  readonly tabId: TabId;
  readonly epoch: number;
  readonly contextId: ContextId;
  readonly journalId: JournalId;
  readonly weak: boolean;
  readonly durability: Durability;
  readonly status: SessionStatus;
  readonly connection: ConnectionState;
}

/** What the engine tells without being asked. */
export type Notice =
  | { readonly kind: "connection"; readonly state: ConnectionState }
  | { readonly kind: "status"; readonly status: SessionStatus }
  | { readonly kind: "durability"; readonly change: DurabilityChange }
  | { readonly kind: "record"; readonly record: RecordView }
  | { readonly kind: "gone"; readonly doc: string; readonly patchId: PatchId }
  | { readonly kind: "opened"; readonly doc: string; readonly incarnation: Incarnation; readonly seq: number }
  | { readonly kind: "changed"; readonly doc: string; readonly seq: number }
  | { readonly kind: "settled"; readonly doc: string }
  | { readonly kind: "problem"; readonly problem: Problem };

export function readInfo(session: EngineSession): SessionInfo {
  const raw = JSON.parse(session.info()) as WireInfo;
  return {
    tabId: raw.tab_id,
    epoch: raw.epoch,
    contextId: raw.context_id,
    journalId: raw.journal_id,
    weak: raw.weak,
    durability: raw.durability,
    status: raw.status,
    connection: readConnection(raw.connection),
  };
}

export function readRecords(session: EngineSession): RecordView[] {
  return (JSON.parse(session.records()) as WireRecord[]).map(recordView);
}

export function readRecord(json: string): RecordView {
  return recordView(JSON.parse(json) as WireRecord);
}

export function readNotice(kind: string, json: string): Notice | undefined {
  const raw: unknown = JSON.parse(json);
  switch (kind) {
    case "connection":
      return { kind, state: readConnection(raw as WireConnection) };
    case "status":
      return { kind, status: raw as SessionStatus };
    case "durability": {
      const { durability, journal_id, fault } = raw as WireDurability;
      return { kind, change: { durability, journalId: journal_id, ...(fault === undefined ? {} : { fault }) } };
    }
    case "record":
      return { kind, record: recordView(raw as WireRecord) };
    case "gone": {
      const { doc, patch_id } = raw as { readonly doc: string; readonly patch_id: PatchId };
      return { kind, doc, patchId: patch_id };
    }
    case "opened":
      return { kind, ...(raw as { readonly doc: string; readonly incarnation: Incarnation; readonly seq: number }) };
    case "changed":
      return { kind, ...(raw as { readonly doc: string; readonly seq: number }) };
    case "settled":
      return { kind, doc: raw as string };
    case "problem": {
      const { code, patch_id, detail } = raw as WireProblem;
      return { kind, problem: { code, detail, ...(patch_id === undefined ? {} : { patchId: patch_id }) } };
    }
    default:
      return undefined;
  }
}

export function readSaveOutcome(json: string): SaveOutcome {
  const raw = JSON.parse(json) as WireSaveOutcome;
  switch (raw.status) {
    case "conflict":
      return { status: raw.status, seq: raw.seq, patchIds: raw.patch_ids, inDoubt: raw.in_doubt };
    case "refused":
      return {
        status: raw.status,
        httpStatus: raw.http_status,
        ...(raw.code === undefined ? {} : { code: raw.code }),
      };
    default:
      return raw;
  }
}

/** A mark as the engine wrote it: the stored version it is based on, its generation, its patches, `?`, and those in doubt. */
export function readMark(mark: string): {
  readonly baseSeq: number;
  readonly generation: number;
  readonly patchIds: readonly PatchId[];
  readonly inDoubt: readonly PatchId[];
} {
  const [baseSeq, generation, ...ids] = mark.split(" ");
  const border = ids.indexOf("?");
  return {
    baseSeq: Number(baseSeq),
    generation: Number(generation),
    patchIds: ids.slice(0, border) as PatchId[],
    inDoubt: ids.slice(border + 1) as PatchId[],
  };
}

/** What the engine threw, as the package's error. Anything that is not one of its codes is a crash or a bug. */
export function readError(thrown: unknown): PatchkeepError {
  if (thrown instanceof PatchkeepError) {
    return thrown;
  }
  if (typeof thrown === "string") {
    const [code, detail] = thrown.split(" ", 2);
    return new PatchkeepError(code as PatchkeepErrorCode, detail);
  }
  return new PatchkeepError("internal", thrown instanceof Error ? thrown.message : undefined, { cause: thrown });
}

function readConnection(raw: WireConnection): ConnectionState {
  switch (raw.state) {
    case "waiting":
      return { state: raw.state, untilMs: raw.until_ms };
    default:
      return raw;
  }
}

/** Whether an effect went with the content it was made in, as far as anybody has said (J6). */
export function isLeftBehind(record: Pick<RecordView, "state" | "current" | "kept" | "flushed">): boolean {
  return record.state === "applied" && !record.current && !record.kept && !record.flushed;
}

function recordView(raw: WireRecord): RecordView {
  return {
    leftBehind: isLeftBehind(raw),
    patchId: raw.patch_id,
    doc: raw.doc,
    state: raw.state,
    incarnation: raw.incarnation,
    current: raw.current,
    delivery: raw.delivery,
    replays: raw.replays,
    kept: raw.kept,
    flushed: raw.flushed,
    receivedAt: raw.received_at,
    ...(raw.reason === undefined ? {} : { reason: raw.reason }),
    ...(raw.confirmed === undefined ? {} : { confirmed: raw.confirmed }),
    ...(raw.settled_at === undefined ? {} : { settledAt: raw.settled_at }),
    ...("result" in raw ? { result: raw.result } : {}),
  };
}

interface WireInfo {
  readonly tab_id: TabId;
  readonly epoch: number;
  readonly context_id: ContextId;
  readonly journal_id: JournalId;
  readonly weak: boolean;
  readonly durability: Durability;
  readonly status: SessionStatus;
  readonly connection: WireConnection;
}

type WireConnection =
  | { readonly state: "waiting"; readonly until_ms: number }
  | { readonly state: "connecting" | "live" | "suspended" | "ended" }
  | { readonly state: "held"; readonly code: RejectCode };

interface WireDurability {
  readonly durability: Durability;
  readonly journal_id: JournalId;
  readonly fault?: StorageFault;
}

interface WireProblem {
  readonly code: ProblemCode;
  readonly patch_id?: PatchId;
  readonly detail: string;
}

interface WireRecord {
  readonly patch_id: PatchId;
  readonly doc: string;
  readonly state: RecordState;
  readonly reason?: RefusalReason;
  readonly incarnation: Incarnation;
  readonly current: boolean;
  readonly delivery: number;
  readonly replays: number;
  readonly kept: boolean;
  readonly flushed: boolean;
  readonly confirmed?: ConfirmedAs;
  readonly received_at: number;
  readonly settled_at?: number;
  readonly result?: unknown;
}

type WireSaveOutcome =
  | { readonly status: "saved"; readonly seq: number }
  | { readonly status: "conflict"; readonly seq: number; readonly patch_ids: readonly PatchId[]; readonly in_doubt: readonly PatchId[] }
  | { readonly status: "fenced" }
  | { readonly status: "refused"; readonly http_status: number; readonly code?: string }
  | { readonly status: "unknown"; readonly detail: string };
