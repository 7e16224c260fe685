import { setTimeout as delay } from "node:timers/promises";
import { Unreachable } from "../../typescript/src/errors.ts";
import { Failure, refused } from "../failure.ts";
import {
  credentialOf,
  DEVICE_GRANT,
  type OauthCredential,
  type OauthError,
  type Provider,
  postForm,
  register,
  SCOPE,
  whyNot,
} from "./oauth.ts";

/** What the user types, and where (RFC 8628, section 3.2). */
export type DeviceCode = {
  device_code: string;
  user_code: string;
  verification_uri: string;
  verification_uri_complete?: string;
  expires_in: number;
  interval?: number;
};

type Ways = { clientId?: string | undefined; signal: AbortSignal; show: (code: DeviceCode) => void };

const DEFAULT_INTERVAL_S = 5;
/** By how much an interval grows when it was too short (RFC 8628, section 3.5). */
const SLOWER_S = 5;

/** Signs in by a browser on any machine, in which the user types a code (RFC 8628). */
export async function signInByDevice(provider: Provider, ways: Ways): Promise<OauthCredential> {
  const { server, resource } = provider;
  if (!server.device_authorization_endpoint)
    throw refused(
      `${server.issuer} offers no sign-in without a browser: it is older than this berth.`,
      "berth login --token - < FILE",
      "device_flow_unsupported",
    );
  const clientId = ways.clientId ?? (await register(provider, "http://127.0.0.1/callback", ways.signal));
  const form = { client_id: clientId, scope: SCOPE, resource };
  const answer = await postForm(server.device_authorization_endpoint, form, ways.signal);
  const code = (answer.body ?? {}) as DeviceCode;
  if (answer.status !== 200 || !code.device_code)
    throw refused(`The sign-in was refused: ${whyNot(answer.body)}`, "berth login");
  ways.show(code);
  return credentialOf(provider, clientId, await poll(provider, clientId, code, ways.signal));
}

async function poll({ server, resource }: Provider, clientId: string, code: DeviceCode, signal: AbortSignal) {
  const form = { grant_type: DEVICE_GRANT, device_code: code.device_code, client_id: clientId, resource };
  // Not by the wall clock, which may be set while the user signs in.
  const until = performance.now() + code.expires_in * 1_000;
  let interval = code.interval ?? DEFAULT_INTERVAL_S;
  for (;;) {
    await delay(interval * 1_000, undefined, { signal }).catch(() => signal.throwIfAborted());
    if (performance.now() > until) throw expired();
    let answer: Awaited<ReturnType<typeof postForm>>;
    try {
      answer = await postForm(server.token_endpoint, form, signal);
    } catch (error) {
      // A lost answer is no refusal: slower, as the RFC asks, until the code has expired.
      if (!(error instanceof Unreachable)) throw error;
      interval *= 2;
      continue;
    }
    if (answer.status === 200) return answer.body as { access_token: string };
    const { error } = (answer.body ?? {}) as Partial<OauthError>;
    if (error === "slow_down") interval += SLOWER_S;
    else if (error === "expired_token") throw expired();
    else if (error === "access_denied")
      throw new Failure("refused", "Access was denied.", "berth login", error);
    else if (error !== "authorization_pending" && answer.status !== 429 && answer.status < 500)
      throw refused(`The sign-in was refused: ${whyNot(answer.body)}`, "berth login");
  }
}

const expired = () => refused("The code has expired before somebody signed in.", "berth login --device");
