/** Calls the host's functions and tells the engine what became of it: exactly one answer, whatever they do. */

import { type EngineSession, HandlerAnswer, ReconcileAnswerCode } from "./engine.js";
import { isRefusal } from "./errors.js";
import { isWellFormed } from "./text.js";
import type { ApplyHandler, OpenDocumentOptions, Patch, RecordView } from "./types.js";

/** Hands an answer to the engine; never throws. */
export type Answer = (give: (engine: EngineSession) => void) => void;

/** Runs a handler. One that returns no promise is answered in this same task. */
export function runHandler(apply: ApplyHandler, patch: Patch, call: number, answer: Answer): void {
  const outcome = attempt(() => apply(patch));
  if ("promise" in outcome) {
    answer((engine) => engine.handlerAnswered(call, HandlerAnswer.Pending));
    outcome.promise.then(
      (result) => answerApplied(answer, call, result),
      (thrown: unknown) => answerThrown(answer, call, thrown),
    );
  } else if ("returned" in outcome) {
    answerApplied(answer, call, outcome.returned);
  } else {
    answerThrown(answer, call, outcome.thrown);
  }
}

/** Runs a reconcile hook. One that throws, or says something else, cannot tell. */
export function runReconcile(
  reconcile: NonNullable<OpenDocumentOptions["reconcile"]>,
  record: RecordView,
  call: number,
  answer: Answer,
): void {
  const say = (code: ReconcileAnswerCode): void => answer((engine) => engine.reconcileAnswered(call, code));
  const outcome = attempt(() => reconcile(record));
  if ("promise" in outcome) {
    say(ReconcileAnswerCode.Pending);
    outcome.promise.then(
      (told) => say(reconcileCode(told)),
      () => say(ReconcileAnswerCode.Unknown),
    );
  } else {
    say("returned" in outcome ? reconcileCode(outcome.returned) : ReconcileAnswerCode.Unknown);
  }
}

type Outcome = { readonly promise: Promise<unknown> } | { readonly returned: unknown } | { readonly thrown: unknown };

/** Calls, and looks at what came back, which may throw as well: a `then` that is a getter. */
function attempt(host: () => unknown): Outcome {
  try {
    const returned = host();
    return isThenable(returned) ? { promise: Promise.resolve(returned) } : { returned };
  } catch (thrown) {
    return { thrown };
  }
}

/** The effect is there; a result that cannot be sent must not make it look otherwise (J8). */
function answerApplied(answer: Answer, call: number, result: unknown): void {
  if (result === undefined) {
    answer((engine) => engine.handlerAnswered(call, HandlerAnswer.Applied));
    return;
  }
  const text = stringify(result);
  answer((engine) =>
    text === undefined
      ? engine.handlerAnswered(call, HandlerAnswer.AppliedUnsendable)
      : engine.handlerAnswered(call, HandlerAnswer.AppliedWithResult, text),
  );
}

/** Nothing for what has no JSON form: a cycle, a BigInt, a function, a `toJSON` that throws. */
function stringify(value: unknown): string | undefined {
  try {
    const text: unknown = JSON.stringify(value);
    return typeof text === "string" && isWellFormed(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

function answerThrown(answer: Answer, call: number, thrown: unknown): void {
  if (isRefusal(thrown)) {
    const reason = wellFormed(describe(thrown.reason));
    const detail = thrown.detail === undefined ? undefined : wellFormed(describe(thrown.detail));
    answer((engine) => engine.handlerAnswered(call, HandlerAnswer.Refused, reason, detail));
  } else {
    const text = wellFormed(describe(thrown));
    answer((engine) => engine.handlerAnswered(call, HandlerAnswer.Threw, text));
  }
}

/** For a person. Never throws, whatever was thrown. */
function describe(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return "an object that has no text form";
  }
}

/** Half a surrogate pair has no form in UTF-8. */
function wellFormed(text: string): string {
  return isWellFormed(text) ? text : text.replace(/\p{Surrogate}/gu, "\ufffd");
}

function reconcileCode(answer: unknown): ReconcileAnswerCode {
  switch (answer) {
    case "present":
      return ReconcileAnswerCode.Present;
    case "absent":
      return ReconcileAnswerCode.Absent;
    default:
      return ReconcileAnswerCode.Unknown;
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    ((typeof value === "object" && value !== null) || typeof value === "function") &&
    "then" in value &&
    typeof value.then === "function"
  );
}
