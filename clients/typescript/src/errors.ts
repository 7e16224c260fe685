import type { Refusals } from "./generated/refusals.ts";
import type { ImpactedService } from "./generated/types.ts";

/** A method by name, such as `services.create`. */
export type Operation = keyof Refusals;
type AllCodes = { [O in Operation]: keyof Refusals[O] }[Operation];
/** Every code with which some operation refuses. */
export type Code = AllCodes & string;
type ReasonsOf<C> = { [O in Operation]: C extends keyof Refusals[O] ? Refusals[O][C] : never }[Operation];

/** Members that a refusal has besides those that all have, by its code. */
type Contexts = {
  forbidden: { requiredRole?: "reader" | "editor" | "owner" };
  impact_confirmation_required: {
    /**
     * What would be affected: the first 20 services, and how many there are. Of a deletion also how many backups of addons
     * are kept, and until when.
     */
    impact: { services: ImpactedService[]; total: number; keptBackups?: number; keptUntil?: string };
  };
  quota_exceeded: { limit?: number | string };
  payload_too_large: { limit?: number };
  not_found: { builtVersion?: number };
};

/** What is wrong with one member of a request. */
export type Detail<Reason extends string = string> = {
  /** The member, such as `set[3].name`; empty for the body as a whole. */
  path: string;
  reason: Reason;
  message: string;
};

/** The API refused a request: an answer other than a success. `message` says what to change. */
export class Refusal<C extends string = string, Reason extends string = string> extends Error {
  override name = "Refusal";
  readonly code: C;
  /** The HTTP status; absent if the refusal ended a stream that had begun. */
  readonly status?: number;
  /** Names the request in the logs of the server. */
  readonly requestId: string;
  readonly details: Detail<Reason>[];
  /** After how many seconds the same may succeed. */
  readonly retryAfter?: number;

  constructor(status: number | undefined, envelope: Envelope, retryAfter?: number) {
    const { code, message, requestId, details, ...context } = envelope;
    super(message);
    Object.assign(this, context);
    if (status !== undefined) this.status = status;
    this.code = code as C;
    this.requestId = requestId;
    this.details = (details ?? []) as Detail<Reason>[];
    if (retryAfter !== undefined) this.retryAfter = retryAfter;
  }
}

/** A refusal with one of the documented codes, and the members that come with it. */
export type RefusalWith<C extends string, Reason extends string = Extract<ReasonsOf<C>, string>> = Refusal<
  C,
  Reason
> &
  (C extends keyof Contexts ? Contexts[C] : unknown);

/** The refusals of a method, by their codes: `RefusalOf<"services.create">`. */
export type RefusalOf<O extends Operation> = {
  [C in keyof Refusals[O] & string]: RefusalWith<C, Refusals[O][C] & string>;
}[keyof Refusals[O] & string];

/** Whether an error is a refusal, of this code where one is given. */
export function isRefusal(error: unknown): error is Refusal;
export function isRefusal<C extends Code>(error: unknown, code: C): error is RefusalWith<C>;
export function isRefusal(error: unknown, code?: string): boolean {
  return error instanceof Refusal && (code === undefined || error.code === code);
}

/** No answer arrived: the server cannot be reached, did not answer in time, or is no Berth. `cause` says why. */
export class Unreachable extends Error {
  override name = "Unreachable";
}

/**
 * Returns why no answer arrived, without a full stop: what the innermost cause says. `fetch` says only "fetch failed", and
 * its cause, where a proxy refused, only that the request was cancelled.
 */
export function reasonOf(error: unknown): string {
  const { cause, message, code } = (error ?? {}) as { cause?: unknown; message?: string; code?: string };
  if (cause instanceof Error) return reasonOf(cause);
  return (message || code || String(error)).replace(/\.$/, "");
}

type Envelope = {
  code: string;
  message: string;
  requestId: string;
  details?: Detail[];
  [context: string]: unknown;
};

/** Returns the refusal that an answer is; `Unreachable` for one that no Berth gives. */
export async function refusalOf(response: Response): Promise<Refusal | Unreachable> {
  const text = await response.text().catch(() => "");
  const envelope = envelopeIn(text);
  if (envelope) return new Refusal(response.status, envelope, secondsIn(response));
  return notBerth(`${response.status} without an error of Berth's`, text);
}

/** Returns the error for an answer that no Berth gives. */
export function notBerth(answered: string, text: string): Unreachable {
  const message = `The server answered ${answered}. Is its address right?`;
  return new Unreachable(message, { cause: text.slice(0, 200) });
}

/** Returns the refusal with which a stream ended. */
export function refusalIn(data: string): Refusal | Unreachable {
  const envelope = envelopeIn(data);
  return envelope ? new Refusal(undefined, envelope) : new Unreachable("The stream ended with an error.");
}

function envelopeIn(text: string): Envelope | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Envelope };
    if (typeof error?.code === "string" && typeof error.message === "string") return error;
  } catch {}
  return undefined;
}

function secondsIn(response: Response): number | undefined {
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return Number.isFinite(seconds) ? seconds : undefined;
}
