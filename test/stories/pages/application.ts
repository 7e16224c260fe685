import { createHash, randomBytes } from "node:crypto";
import http from "node:http";
import type { AddressInfo } from "node:net";

type Tokens = { access_token: string; refresh_token: string };

/** Registers an application by RFC 7591, and returns what it does in the authorization code flow with PKCE. */
export async function application(origin: string, metadata: Record<string, unknown>, redirectUri?: string) {
  const registered = await fetch(`${origin}/v1/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: "Notes for Berth", ...metadata }),
  });
  const client = (await registered.json()) as { client_id: string; redirect_uris: string[] };
  if (registered.status !== 201) throw new Error(`not registered: ${JSON.stringify(client)}`);
  const redirect = redirectUri ?? client.redirect_uris[0]!;
  const verifier = randomBytes(32).toString("base64url");
  return {
    clientId: client.client_id,
    /** Where it sends the browser. */
    authorizeUrl(more: Record<string, string> = {}): string {
      const query = new URLSearchParams({
        client_id: client.client_id,
        response_type: "code",
        redirect_uri: redirect,
        code_challenge: createHash("sha256").update(verifier).digest("base64url"),
        code_challenge_method: "S256",
        scope: "platform:read platform:write",
        state: "some-state",
        resource: `${origin}/v1`,
        ...more,
      });
      return `${origin}/oauth2/auth?${query}`;
    },
    /** Exchanges the code that the browser brought. */
    async tokens(callback: URL): Promise<Tokens> {
      const answer = await fetch(`${origin}/oauth2/token`, {
        method: "POST",
        body: new URLSearchParams({
          grant_type: "authorization_code",
          code: callback.searchParams.get("code")!,
          redirect_uri: redirect,
          client_id: client.client_id,
          code_verifier: verifier,
          resource: `${origin}/v1`,
        }),
      });
      return (await answer.json()) as Tokens;
    },
  };
}

/** Starts a program on this computer that waits for its answer, as MCP clients do. */
export async function listeningProgram() {
  const calls: URL[] = [];
  const server = http.createServer((request, response) => {
    const url = new URL(request.url!, `http://${request.headers.host}`);
    if (url.pathname === "/callback") calls.push(url);
    response.setHeader("content-type", "text/html").end("<!doctype html><title>Back in the program</title>");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    redirectUri: `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`,
    /** What browsers brought, in order. */
    calls,
    stop: () => void server.close(),
  };
}
