import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../../../services/kit/testing/testing.ts";
import { consent } from "../../../support/oauth/application.ts";
import { clientStore, sdks } from "../../../support/oauth/mcp-client.ts";
import { withEachProvider } from "../../../support/oauth/providers.ts";
import type { Platform } from "../../../support/world.ts";

/** Asks for the tools, as an older client does. */
const POST = {
  method: "POST",
  headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
  body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
};

withEachProvider(({ name: provider, open }) => {
  let platform: Platform;
  beforeAll(async () => {
    platform = await open();
  });
  afterAll(() => platform?.stop());

  describe.each(sdks)("$name", ({ name, auth, withOAuth }) => {
    /** A client that was let in; `api` sends requests with its token, refreshes it, and asks to sign in anew. */
    async function connect(role: "reader" | "editor", serverUrl = platform.baseUrl) {
      const kept = clientStore(name);
      const api = withOAuth(kept as never, serverUrl)(fetch);
      const first = serverUrl === platform.baseUrl ? api(`${serverUrl}/accounts`) : api(serverUrl, POST);
      await expect(first).rejects.toThrow(/redirect/i);
      const url = kept.opened()!;
      const back = await consent(platform.call, url.href, { accountId: platform.accountId, role });
      const { code, state, iss } = Object.fromEntries(back.searchParams) as Record<string, string>;
      // Hydra does not send it.
      const issuer = provider === "embedded" ? platform.origin : undefined;
      expect({ state, iss }).toEqual({ state: "a-state-of-its-own", iss: issuer });
      const done = await auth(kept as never, { serverUrl, authorizationCode: code!, ...{ iss } });
      expect(done).toBe("AUTHORIZED");
      return { kept, api, url };
    }

    test("signs in with nothing but the URL of the API, and reads the account that its user chose", async () => {
      const { kept, api, url } = await connect("reader");
      expect(url.searchParams.get("resource")).toBe(platform.baseUrl);
      expect(url.searchParams.get("code_challenge_method")).toBe("S256");
      const listed = await (await api(`${platform.baseUrl}/accounts`)).json();
      expect(listed).toMatchObject({ data: [{ id: platform.accountId, myRole: "reader" }] });
      const project = {
        method: "POST",
        body: '{"name":"shop"}',
        headers: { "content-type": "application/json" },
      };
      expect((await api(`${platform.baseUrl}${platform.A}/projects`, project)).status).toBe(403);
      expect(await platform.must("GET", "/me/mcp-grants")).toContainEqual(
        expect.objectContaining({ clientId: kept.clientInformation()!.client_id, clientName: name }),
      );
    });

    test("signs in with nothing but the URL of the tools, with a token that works there only", async () => {
      const tools = `${platform.origin}/mcp`;
      const { kept, api, url } = await connect("reader", tools);
      expect(url.searchParams.get("resource")).toBe(tools);
      const works = async () => {
        const answer = await api(tools, POST);
        return (await answer.text()).includes('"get_logs"');
      };
      expect(await works()).toBe(true);
      const first = kept.tokens()!;
      const atApi = await platform.call("GET", platform.A, undefined, { token: first.access_token });
      expect(atApi.status).toBe(401);
      kept.saveTokens({ ...first, access_token: "expired" });
      expect(await works()).toBe(true);
      expect(kept.opened()).toBeUndefined();
    });

    test("refreshes its token by itself when it no longer works", async () => {
      const { kept, api } = await connect("editor");
      const first = kept.tokens()!;
      kept.saveTokens({ ...first, access_token: "expired" });
      expect((await api(`${platform.baseUrl}${platform.A}`)).status).toBe(200);
      expect(kept.opened()).toBeUndefined();
      expect(kept.tokens()!.refresh_token).not.toBe(first.refresh_token);
    });

    test("asks its user again when the access was taken back", async () => {
      const { kept, api } = await connect("editor");
      const { client_id } = kept.clientInformation()!;
      await platform.must("DELETE", `/me/mcp-grants/${client_id}`);
      const token = kept.tokens()!.access_token;
      await eventually("the token is refused", async () => {
        const answer = await platform.call("GET", platform.A, undefined, { token });
        return answer.status === 401;
      });
      await expect(api(`${platform.baseUrl}${platform.A}`)).rejects.toThrow(/redirect/i);
      const url = kept.opened()!;
      expect(url.searchParams.get("client_id")).toBe(client_id);
      const back = await consent(platform.call, url.href, { accountId: platform.accountId, role: "reader" });
      const authorizationCode = back.searchParams.get("code")!;
      await auth(
        kept as never,
        { serverUrl: platform.baseUrl, authorizationCode, iss: platform.origin } as never,
      );
      expect((await api(`${platform.baseUrl}${platform.A}`)).status).toBe(200);
    });
  });
});
