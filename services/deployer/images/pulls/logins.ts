import { createMacs } from "../../../kit/crypto/mac.ts";
import type { Field } from "../../../kit/process/config.ts";
import { keys } from "../../../kit/process/config.ts";

const PURPOSE = "pulls of an account's images";

/** Of which the accounts' logins are made, where they have some. The first makes them, all are accepted. */
export const pullKeys: Field<Buffer[] | undefined> = {
  name: "REGISTRY_PULL_KEYS",
  parse: (given) => (given === undefined ? undefined : keys(pullKeys.name).parse(given)),
};

/**
 * The logins with which nodes pull what builds of one account pushed: its id and a MAC of that. They are made wherever
 * the keys are, so that the door needs no database, and stored nowhere but in the account's namespaces.
 */
export function createPullLogins(given: Buffer[]) {
  const macs = createMacs(given, PURPOSE);
  return {
    /** Returns an account's docker configuration for a registry's host. */
    configFor(host: string, accountId: string): string {
      const auth = Buffer.from(`${accountId}:${macs.macOf(accountId)}`).toString("base64");
      return JSON.stringify({ auths: { [host]: { auth } } });
    },
    isPassword: (given: string, accountId: string): boolean => macs.isMac(given, accountId),
  };
}
