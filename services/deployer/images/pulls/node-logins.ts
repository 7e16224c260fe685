import { createPullLogins } from "./logins.ts";
import { parsePushLogin, pullKeysOf } from "./push-login.ts";

/** Where builds push and nodes pull, and of what accounts' logins are made. */
type Registry = {
  registryPush: string;
  registryPull: string;
  registryPullKeys: Buffer[] | undefined;
  registryAccountPulls: "true" | "false";
};

/**
 * Returns the docker configuration with which nodes pull for an account: a login of its own where there are keys, or the
 * bundled registry's login to make them of, otherwise the one of all. Undefined where nodes need none.
 */
export function nodeLogins(
  { registryPush, registryPull, registryPullKeys, registryAccountPulls }: Registry,
  { pushLogin, pullLogin }: { pushLogin: string | undefined; pullLogin: string | undefined },
): ((accountId: string) => string) | undefined {
  const hostOf = (registry: string) => registry.split("/")[0]!;
  const keys =
    registryPullKeys === undefined && registryAccountPulls === "true"
      ? pullKeysOf(parsePushLogin(pushLogin ?? "", hostOf(registryPush)))
      : registryPullKeys;
  if (keys !== undefined) {
    const logins = createPullLogins(keys);
    return (accountId) => logins.configFor(hostOf(registryPull), accountId);
  }
  const shared = pullLogin ?? pushLogin;
  return shared === undefined ? undefined : () => shared;
}
