import { isRefusal, type Refusal, Unreachable } from "../typescript/src/errors.ts";
import { EXIT, Failure } from "./failure.ts";
import { clean } from "./terminal/clean.ts";
import type { Terminal } from "./terminal/terminal.ts";

type Reported = { message: string; lines: string[]; next?: string; exitCode: number; code: string } & Partial<
  Pick<Refusal, "requestId" | "details">
>;

/** Prints why a command ended: the sentence, the reasons, the next command to type. Returns the exit code. */
export function report(io: Terminal, error: unknown, whenCanceled: string[] = []): number {
  const { lines, exitCode, ...told } = reportOf(error, whenCanceled);
  if (io.json) {
    io.note(JSON.stringify({ error: { ...told, exitCode } }));
    return exitCode;
  }
  io.note(
    `${io.styleErr("red", told.code === "canceled" ? "Canceled." : "Error:")} ${told.message
      .split("\n")
      .map((line) => clean(line))
      .join("\n  ")}`.trimEnd(),
  );
  for (const line of lines) io.note(`  ${clean(line)}`);
  if (told.next) io.note(`  ${io.styleErr("dim", "Next:")} ${told.next}`);
  return exitCode;
}

function reportOf(error: unknown, whenCanceled: string[]): Reported {
  if (error instanceof Failure) {
    const { message, exitCode, code, next } = error;
    return { message, lines: [], exitCode, code, ...(next !== undefined && { next }) };
  }
  if (isRefusal(error)) return ofRefusal(error);
  if (error instanceof Unreachable) return ofUnreachable(error);
  const { name, exitCode } = error as { name?: string; exitCode?: number };
  if (name === "Canceled")
    return { message: "", lines: whenCanceled, exitCode: exitCode ?? EXIT.canceled, code: "canceled" };
  const known = fileProblem(error);
  if (known) return { message: known, lines: [], exitCode: EXIT.refused, code: "file" };
  const { stack = String(error) } = (error ?? {}) as Error;
  return {
    message: "A mistake in berth itself. Please report it with these lines.",
    lines: [`berth on Node ${process.version}, ${process.platform}`, ...stack.split("\n")],
    exitCode: EXIT.refused,
    code: "internal",
  };
}

function ofRefusal(error: Refusal): Reported {
  const { code, message, requestId, details } = error;
  const lines = details.map(({ path, message: why }) => (path ? `${path}: ${why}` : why));
  const next = nextFor(error);
  const role = "requiredRole" in error ? String(error.requiredRole) : "";
  if (role) lines.push(`This needs the role ${role}.`);
  if (code === "internal") lines.push(`Request ${requestId}`);
  const old = isUnknownEndpoint(error);
  return {
    message: old ? "This installation does not know this request: it is older than this berth." : message,
    lines: lines.filter((line) => line !== message),
    ...(next && { next }),
    exitCode: EXIT.refused,
    code,
    requestId,
    details,
  };
}

/** Whether the server does not know an endpoint, which is not the same as a resource that does not exist: all begin so. */
export const isUnknownEndpoint = ({ code, message }: Refusal) =>
  code === "not_found" && message.startsWith("There is no such endpoint");

/** The command that continues from a refusal, by its code. */
function nextFor(error: Refusal): string | undefined {
  const { code } = error;
  switch (code) {
    case "unauthenticated":
      return "berth login";
    case "forbidden":
    case "machine_actor_forbidden":
      return "berth whoami";
    case "not_found":
      return isUnknownEndpoint(error) ? "berth doctor" : "berth status, or berth link";
    case "impact_confirmation_required":
      return "the same command with --yes";
    case "account_not_provisioned":
      return "the same command again in a minute";
    case "no_deployable_image":
      return "berth up, or berth deploy --image IMAGE";
    case "version_never_live":
    case "version_is_current":
      return "berth status --deployments";
    case "resolved_set_too_large":
    case "variable_exists":
      return "berth vars";
    default:
      return undefined;
  }
}

function ofUnreachable({ message }: Unreachable): Reported {
  const lines = /certificate|self.signed|issuer/i.test(message)
    ? ["A certificate of your own authority is trusted with NODE_EXTRA_CA_CERTS=FILE."]
    : [];
  return { message, lines, next: "berth doctor", exitCode: EXIT.unreachable, code: "unreachable" };
}

/** What the system says of a file, in words. */
function fileProblem(error: unknown): string | undefined {
  const { code, path } = (error ?? {}) as NodeJS.ErrnoException;
  const why = {
    ENOENT: "does not exist",
    EACCES: "must not be read or written by you",
    EPERM: "must not be changed by you",
    ENOTDIR: "is not in a folder",
    EISDIR: "is a folder",
    ENOSPC: "has no room: the disk is full",
    EROFS: "cannot be written: the disk is read-only",
  }[code ?? ""];
  return why && path ? `${path} ${why}.` : undefined;
}
