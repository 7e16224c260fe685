import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { isProblem } from "../../http/problem.ts";
import type { Idempotency } from "../../limits/idempotency.ts";
import { ApiRefusal } from "./api.ts";
import { FORM_ID, MARK } from "./form-mark.ts";

/** An answer as it is sent to a browser. */
export type SentPage = {
  status: number;
  text: string;
  cookies: string[];
  location?: string;
  retryAfter?: number | undefined;
};

const WAIT_MS = 100;
const WAITS = 50;
const UNDER_WAY = {
  code: "unavailable",
  message: "This form was already submitted and is still being processed. Submit it again in a minute.",
};

/**
 * Returns a function that answers a form as often as a browser sends it, and has `work` done once: a double click is
 * answered twice alike, by whichever gateways. A form that was refused may be sent again. Rejects as `work` does, and
 * with an `ApiRefusal`.
 */
export function createAnswerOnce(idempotency: Idempotency) {
  return async (path: string, fields: URLSearchParams, work: () => Promise<SentPage>): Promise<SentPage> => {
    // A page that an older gateway made has no id: there would be no telling its second form from its first.
    if (!fields.get(FORM_ID)) return work();
    const body = Buffer.from(JSON.stringify([...fields]));
    const key = createHash("sha256").update(body).digest("base64url");
    const form = { owner: "form", secret: fields.get(MARK) ?? "", key, method: "POST", url: path, body };
    let failure: { error: unknown } | undefined;
    const answer = async () => {
      const page = await work().catch((error: unknown) => {
        failure = { error };
        return undefined;
      });
      const { status, retryAfter } = page ?? { status: 500 };
      return { status, retryAfter, body: Buffer.from(JSON.stringify(page ?? {})) };
    };
    for (let waits = 0; ; waits++) {
      const result = await idempotency.run(form, answer);
      if (failure) throw failure.error;
      if (!isProblem(result)) return JSON.parse(result.body!.toString()) as SentPage;
      if (result.code !== "conflict") throw new ApiRefusal(result.status, result, result.retryAfter);
      if (waits === WAITS) throw new ApiRefusal(503, UNDER_WAY, result.retryAfter);
      await delay(WAIT_MS);
    }
  };
}
