import type { ClientDocument } from "../port.ts";
import { DEVICE_GRANT, OFFLINE, READ, WRITE } from "../scopes.ts";
import type { ClientMetadata, MetadataRules } from "./client-metadata.ts";

const CLI_ID = "berth-cli";
/** Any port of loopback is accepted, as for every native client. */
const CLI_REDIRECT_URIS = ["http://127.0.0.1/callback", "http://[::1]/callback"];

const CLI: ClientDocument = {
  client_id: CLI_ID,
  client_name: "Berth CLI",
  redirect_uris: CLI_REDIRECT_URIS,
  grant_types: ["authorization_code", "refresh_token", DEVICE_GRANT],
  response_types: ["code"],
  token_endpoint_auth_method: "none",
  application_type: "native",
  scope: [READ, WRITE, OFFLINE].join(" "),
  software_id: CLI_ID,
};

/** Returns a client of Berth itself, which needs no registration (docs/oauth.md#the-client-of-the-command-line). */
export function builtInClient(id: string): ClientDocument | undefined {
  return id === CLI_ID ? CLI : undefined;
}

/**
 * Returns the client of Berth itself that registers with this metadata, if any: RFC 7591, section 3.2.1, lets all copies
 * of a program have one id. Copies that redirect elsewhere are clients of their own.
 */
export function builtInClientFor(
  { software_id: softwareId, redirect_uris: uris }: ClientMetadata,
  { devices }: MetadataRules,
): ClientDocument | undefined {
  const isItsOwn = uris.every((uri) =>
    CLI_REDIRECT_URIS.includes(uri.replace(/:\d+\/callback$/, "/callback")),
  );
  if (softwareId !== CLI_ID || !isItsOwn) return undefined;
  return devices ? CLI : { ...CLI, grant_types: ["authorization_code", "refresh_token"] };
}
