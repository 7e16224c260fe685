import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

export type FakeCall = { method: string; path: string; query: URLSearchParams; body: string };
/** The answer of the fake: a status and a body, which is sent verbatim if it is a string. */
export type FakeAnswer =
  | { status?: number; body?: unknown; headers?: Record<string, string> }
  | "hang"
  | "cut";

/** A fake of Hydra's admin API, which answers as a test says and records its calls. */
export async function startFakeHydra() {
  const calls: FakeCall[] = [];
  const fake = { answer: (_call: FakeCall): FakeAnswer | Promise<FakeAnswer> => ({ status: 500 }) };
  const server = createServer(async (req, res) => {
    const url = new URL(req.url!, "http://fake.example.com");
    const body = await textOf(req);
    const call = { method: req.method!, path: url.pathname, query: url.searchParams, body };
    calls.push(call);
    const answer = await fake.answer(call);
    if (answer === "hang") return;
    if (answer === "cut") return void req.socket.destroy();
    const text = typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body ?? {});
    res.writeHead(answer.status ?? 200, { "content-type": "application/json", ...answer.headers });
    res.end(answer.status === 204 ? undefined : text);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return Object.assign(fake, {
    calls,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  });
}

export type FakeHydra = Awaited<ReturnType<typeof startFakeHydra>>;

async function textOf(req: IncomingMessage): Promise<string> {
  return Buffer.concat(await req.toArray()).toString();
}

/** A login or consent request as Hydra describes it. */
export function hydraRequest(origin: string, more: Record<string, unknown> = {}) {
  const parameters = {
    client_id: "app",
    redirect_uri: "http://127.0.0.1:3000/callback",
    resource: `${origin}/v1`,
    code_challenge: "c",
    code_challenge_method: "S256",
  };
  return {
    challenge: "the-challenge",
    requested_scope: ["platform:read"],
    requested_access_token_audience: null,
    skip: false,
    subject: "",
    oidc_context: {},
    client: { client_id: "app", client_name: "An app", client_uri: "", logo_uri: "", contacts: null },
    request_url: `${origin}/oauth2/auth?${new URLSearchParams(parameters)}`,
    session_id: "s",
    ...more,
  };
}
