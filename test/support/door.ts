import { randomBytes } from "node:crypto";
import { type Mailbox, secretLinkIn } from "../../services/kit/testing/smtp-server.ts";
import { eventually } from "../../services/kit/testing/testing.ts";

export type Answer<T = Record<string, unknown>> = {
  status: number;
  headers: Headers;
  body: T & { error?: { code: string; message: string; details: Detail[] } & Record<string, unknown> };
};
export type Detail = { path: string; reason: string; message: string };

/** A client of the platform's REST API, as the owner of one account. */
export type Door = Awaited<ReturnType<typeof openDoor>>;

/** Returns a client of the platform at `origin`, with the token of an account's owner. */
export async function openDoor(origin: string, ownerToken: string) {
  const baseUrl = `${origin}/v1`;

  async function call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    options: { token?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Answer<T>> {
    const headers: Record<string, string> = { ...options.headers };
    const token = options.token ?? ownerToken;
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] ??= "application/json";
    const answer = await fetch(baseUrl + path, {
      method,
      headers,
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
      signal: options.signal ?? null,
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text ? JSON.parse(text) : {} };
  }

  /** Like `call`, but throws unless the request succeeds. */
  async function must<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    token?: string,
  ): Promise<T> {
    const answer = await call<T>(method, path, body, { token });
    if (answer.status >= 300)
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  const accounts = await must<{ data: { id: string }[] }>("GET", "/accounts");
  const accountId = accounts.data[0]!.id;
  return {
    origin,
    baseUrl,
    ownerToken,
    accountId,
    /** Base path of the owner's account. */
    A: `/accounts/${accountId}`,
    call,
    must,
    /** Creates a project with one environment; returns their base paths, and that of a service. */
    async environment(name = `p${randomBytes(4).toString("hex")}`) {
      const project = await must<{ id: string }>("POST", `/accounts/${accountId}/projects`, { name });
      const P = `/accounts/${accountId}/projects/${project.id}`;
      const made = await must<{ id: string }>("POST", `${P}/environments`, { name: "production" });
      const E = `${P}/environments/${made.id}`;
      return {
        name,
        projectId: project.id,
        environmentId: made.id,
        P,
        E,
        S: (service: string) => `${E}/services/${service}`,
      };
    },
    /** Adds a new user with this role to the owner's account, signed in. */
    member: (role: Role, mailbox?: Mailbox) => bringIn(call, `/accounts/${accountId}`, role, mailbox),
  };
}

type Role = "reader" | "editor" | "owner";
type Call = (
  method: string,
  path: string,
  body?: unknown,
  options?: { token?: string },
) => Promise<{ status: number; body: object }>;

/**
 * Adds a new user to an account, signed in: invited by `call`, and joined by the link, which is in the mailbox of an
 * installation with mail, and otherwise in the answer to `call`, an operator.
 */
export async function bringIn(call: Call, account: string, role: Role, mailbox?: Mailbox) {
  const email = `${role}-${randomBytes(6).toString("hex")}@example.com`;
  const password = randomBytes(12).toString("hex");
  const must = async <T>(path: string, body: object, options?: { token: string }) => {
    const answer = await call("POST", path, body, options);
    if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body as T;
  };
  const answered = await must<{ link?: string }>(`${account}/members`, { email, role });
  const mailed = mailbox && (await eventually("the invitation is mailed", async () => mailbox.for(email)[0]));
  const link = mailed ? secretLinkIn(mailed) : new URL(answered.link!);
  const token = link.hash.slice(1);
  const joined = await must<{ user: { id: string } }>(
    "/invitations/join",
    { token, password },
    { token: "" },
  );
  const session = await must<{ token: string }>("/sessions", { email, password }, { token: "" });
  return { userId: joined.user.id, email, password, token: session.token };
}

/** Returns status and reasons of a refusal, or its code, for short assertions: `409 variable_exists`. */
export function refusal(answer: Answer): string {
  const { error } = answer.body;
  const reasons = (error?.details ?? []).map((detail) => detail.reason);
  return [answer.status, ...(reasons.length > 0 ? reasons : [error?.code])].join(" ");
}
