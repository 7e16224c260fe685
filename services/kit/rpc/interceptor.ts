import { type DescMethod, getOption } from "@bufbuild/protobuf";
import {
  Code,
  createContextKey,
  type HandlerContext,
  type Interceptor,
  type UnaryRequest,
} from "@connectrpc/connect";
import { SpanKind } from "@opentelemetry/api";
import {
  Actor,
  type MethodRules,
  method as methodRules,
  Role,
} from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { causeOf, isUnreachable } from "../failures.ts";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import { internalErrors, rpcDuration, traced } from "../telemetry.ts";
import { atLeast, CALLER_HEADER, type Caller, createCallerVerifier, type RoleName } from "./caller-token.ts";
import { observed, readSingle, streamOf } from "./json/single-message.ts";
import { toPublicError } from "./public-error.ts";
import { refuse } from "./refusals.ts";
import { findViolations } from "./violations.ts";

const REQUEST_ID_HEADER = "x-request-id";

/** The caller of an RPC and the id of its request. */
export type Who = { caller: Caller; requestId: string };

const ANONYMOUS: Caller = { kind: "anonymous", id: "", ip: "" };
const whoKey = createContextKey<Who>({ caller: ANONYMOUS, requestId: "" });

/** Returns who makes a request, for handlers and audit records. */
export function who(ctx: Pick<HandlerContext, "values">): Who {
  return ctx.values.get(whoKey);
}

/**
 * Returns the rules of a method. Throws for a method without a role, and for one that takes a stream of messages, which
 * could not be authorised. No process starts with either.
 */
export function rulesOf(method: DescMethod): MethodRules {
  const found = getOption(method, methodRules);
  const name = `${method.parent.typeName}.${method.name}`;
  if (method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming")
    throw new Error(`${name} takes a stream, which cannot be authorised`);
  if (found.role === Role.UNSPECIFIED) throw new Error(`${name} has no role`);
  return found;
}

const ROLE_NAMES: Partial<Record<Role, RoleName>> = {
  [Role.READER]: "reader",
  [Role.EDITOR]: "editor",
  [Role.OWNER]: "owner",
};

const MAX_BODY = 1024 * 1024;
const MAX_PUBLIC_BODY = 16 * 1024;

/** Returns how many bytes the JSON of a request may have (docs/conventions.md#size-limits). */
export function maxBodyOf({ role, maxBody }: MethodRules): number {
  return maxBody || (role === Role.PUBLIC ? MAX_PUBLIC_BODY : MAX_BODY);
}

/** Returns the role in the account that a method requires of its caller, if any. */
export function requiredRole(rule: MethodRules, kind?: Caller["kind"]): RoleName | undefined {
  return (kind === "machine" && ROLE_NAMES[rule.machineRole]) || ROLE_NAMES[rule.role];
}

function authorize(rule: MethodRules, caller: Caller, message: Record<string, unknown>): void {
  if (rule.role === Role.PUBLIC) return;
  if (rule.actor === Actor.USER && caller.kind === "machine")
    throw refuse(403, "machine_actor_forbidden", "Only users can do this, not machines.");
  const needed = requiredRole(rule, caller.kind);
  const isService = caller.kind === "service";
  // Refusal is the default: each kind of role names who passes.
  if (rule.role === Role.SERVICE && isService) return;
  if (rule.role === Role.SIGNED_IN && (caller.kind === "user" || caller.kind === "machine")) return;
  if (needed && atLeast(caller.role, needed) && caller.accountId && message.accountId === caller.accountId)
    return;
  if (caller.kind === "anonymous") throw refuse(401, "unauthenticated", "The request is not authenticated.");
  throw refuse(
    403,
    "forbidden",
    "The caller is not allowed to do this.",
    needed ? { context: { requiredRole: needed } } : {},
  );
}

/**
 * Does for every RPC of every service: request id, caller signature, role, validation, trace, metrics, one log line, and
 * errors that contain only what the caller may see.
 */
export function serverInterceptor(options: { keys: Buffer[]; log: Logger }): Interceptor {
  const { log } = options;
  const verify = createCallerVerifier(options.keys);
  const known = new Map<DescMethod, MethodRules>();
  const cachedRules = (method: DescMethod) => {
    const rules = known.get(method) ?? rulesOf(method);
    known.set(method, rules);
    return rules;
  };
  return (next) => async (req) => {
    // Health checking and reflection are public: they reveal no data.
    if (req.service.typeName.startsWith("grpc.")) return next(req);
    const started = performance.now();
    const method = `${req.service.typeName}/${req.method.name}`;
    const requestId = req.header.get(REQUEST_ID_HEADER) ?? newId("req");
    const header = req.header.get(CALLER_HEADER);
    const caller = (header && verify(header)) || ANONYMOUS;
    const finish = (code: string) => {
      const ms = performance.now() - started;
      rpcDuration.observe({ method, code }, ms / 1000);
      log.debug({ method, code, ms: Math.round(ms * 10) / 10, requestId, caller: caller.id }, "rpc");
    };
    const failed = (thrown: unknown) => {
      const { error, unexpected } = toPublicError(thrown, requestId);
      if (unexpected) {
        internalErrors.inc({ method });
        // An outage fails many requests: a line for each, whose stack would say nothing.
        if (isUnreachable(thrown)) log.warn({ cause: causeOf(thrown), method, requestId }, "request failed");
        else log.error({ err: thrown, method, requestId }, "request failed");
      }
      // The client is gone, or this process is stopping.
      const canceled = req.stream && req.signal.aborted;
      finish(canceled ? "canceled" : (Code[error.code]?.toLowerCase() ?? "unknown"));
      return error;
    };
    const admit = (message: UnaryRequest["message"]) => {
      authorize(cachedRules(req.method), caller, message as Record<string, unknown>);
      const refusal = findViolations(req.method, message);
      if (refusal) throw refusal;
    };
    try {
      const carrier = { traceparent: req.header.get("traceparent") ?? undefined };
      const response = await traced(method, SpanKind.SERVER, carrier, async () => {
        // Only server-streaming methods have rules, and their request is one message.
        const message = req.stream ? await readSingle(req.message) : req.message;
        admit(message);
        req.contextValues.set(whoKey, { caller, requestId });
        return next(req.stream ? { ...req, message: streamOf(message) } : req);
      });
      if (!response.stream) finish("ok");
      else return { ...response, message: observed(response.message, failed, () => finish("ok")) };
      return response;
    } catch (thrown) {
      throw failed(thrown);
    }
  };
}
