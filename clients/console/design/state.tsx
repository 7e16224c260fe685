import { type ReactNode, useEffect, useReducer } from "react";
import { isRefusal, Unreachable } from "../../typescript/src/index.ts";
import type { Liveness } from "../live/follow.ts";
import { texts } from "../texts.ts";
import { Complaint } from "./complaint.ts";
import { ago, exactly } from "./format.ts";

/** Returns what to tell a person about an error: what the API says, or what else is wrong. */
export function sentenceOf(error: unknown): string {
  if (isRefusal(error, "forbidden") && "requiredRole" in error && error.requiredRole)
    return texts.failures.roleTooLow(error.requiredRole as string);
  if (isRefusal(error, "unauthenticated")) return texts.failures.signedOut;
  if (isRefusal(error) || error instanceof Complaint) return error.message;
  if (error instanceof Unreachable)
    return navigator.onLine ? texts.failures.unreachable : texts.failures.offline;
  return texts.failures.internal;
}

export function Loading() {
  return (
    <p className="state" role="status">
      {texts.loading}
    </p>
  );
}

/** `isScreen`: there is nothing else on the screen, so its heading is that of the page. */
type Whole = { isScreen?: boolean };

/** What a screen shows in place of what it cannot: refused, gone, offline, or broken. */
export function Failure({ error, retry, isScreen }: { error: unknown; retry?: () => void } & Whole) {
  const Heading = isScreen ? "h1" : "h2";
  const isGone = isRefusal(error, "not_found");
  return (
    <section className="state" role="alert">
      <Heading>{isGone ? texts.failures.gone : texts.failures.title}</Heading>
      <p>{sentenceOf(error)}</p>
      {isRefusal(error) && <p className="hint">{texts.failures.request(error.requestId)}</p>}
      {retry && !isGone && (
        <button type="button" onClick={retry}>
          {texts.tryAgain}
        </button>
      )}
    </section>
  );
}

export function Empty({ title, children, isScreen }: { title: string; children?: ReactNode } & Whole) {
  const Heading = isScreen ? "h1" : "h2";
  return (
    <section className="state">
      <Heading>{title}</Heading>
      {children}
    </section>
  );
}

/** Whether what is shown is what is: by shape and word. */
export function LiveMark({ liveness }: { liveness: Liveness }) {
  const { status, error } = liveness;
  const [symbol, word] = texts.live[status];
  return (
    <span
      className={`live ${status}`}
      role="status"
      title={status === "lost" && error ? sentenceOf(error) : undefined}
    >
      <span aria-hidden="true">{symbol}</span> {word}
    </span>
  );
}

/** A status by shape, word and colour. */
export function Status({ status }: { status: keyof typeof texts.statuses }) {
  const [symbol, word, tone] = texts.statuses[status];
  return (
    <span className={`status ${tone}`}>
      <span aria-hidden="true">{symbol}</span> {word}
    </span>
  );
}

const AGO_MS = 20_000;

export function Ago({ time }: { time: string }) {
  const [, pass] = useReducer((passed: number) => passed + 1, 0);
  useEffect(() => {
    const timer = setInterval(pass, AGO_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <time dateTime={time} title={exactly(time)}>
      {ago(time)}
    </time>
  );
}
