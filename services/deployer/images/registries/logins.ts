import type { Logger } from "../../../kit/log.ts";
import type { Db } from "../../../kit/postgres/db.ts";
import type { Secrets } from "../../secrets.ts";
import type { EnvironmentPlans, RegistryLogin } from "../../terms/environment-plan.ts";
import { DOCKER_HUB } from "../image-reference.ts";
import type { RegistryRules } from "./host.ts";
import { findLogin, listLogins, type SealedLogin } from "./sql.ts";

export type RegistryLogins = ReturnType<typeof registryLogins>;

type Deps = { db: Db; secrets: Pick<Secrets, "seal" | "open">; rules: RegistryRules; log: Logger };

/** Where docker configurations have the login of Docker Hub. */
const HUB_KEY = "https://index.docker.io/v1/";

/** The logins of accounts for registries (docs/images.md#private-registries). */
export function registryLogins({ db, secrets, rules, log }: Deps) {
  // The operator may have changed the rules since it was stored.
  const isUsed = ({ host }: { host: string }) => rules.accounts && !rules.own.includes(host);

  function open({ id, host, user, token }: SealedLogin): RegistryLogin[] {
    try {
      return [{ host, user, token: secrets.open(token, id) }];
    } catch {
      log.error(
        { registry: id },
        "the login of a registry cannot be opened with SECRET_KEYS; it is left out",
      );
      return [];
    }
  }

  return {
    /** Seals the token of the registry with this id. */
    seal: (token: string, id: string): Buffer => secrets.seal(token, id),

    /** Returns the `Authorization` of an account for a registry; undefined when it has none. */
    async authorizationFor(accountId: string, host: string): Promise<string | undefined> {
      if (!isUsed({ host })) return undefined;
      const found = await findLogin(db, accountId, host);
      const [login] = found ? open(found) : [];
      return login && `Basic ${encode(login)}`;
    },

    /** Adds to what plans allow in environments the logins with which nodes pull there. */
    withLogins(plansOf: EnvironmentPlans): EnvironmentPlans {
      if (!rules.accounts) return plansOf;
      return async (ids) => {
        const [plans, sealed] = await Promise.all([plansOf(ids), listLogins(db, ids)]);
        const logins = new Map<string, RegistryLogin[]>();
        for (const one of sealed.filter(isUsed)) {
          const opened = open(one);
          for (const id of one.environmentIds) logins.set(id, [...(logins.get(id) ?? []), ...opened]);
        }
        const entries = [...plans].map(([id, plan]) => {
          const own = logins.get(id);
          return [id, own ? { ...plan, logins: own } : plan] as const;
        });
        return new Map(entries);
      };
    },
  };
}

/** Returns a docker configuration with these logins in addition; its own stay but for those of the same hosts. */
export function addLogins(config: string, logins: readonly RegistryLogin[]): string {
  if (logins.length === 0) return config;
  const { auths, ...rest } = JSON.parse(config) as { auths?: object };
  const added = logins.map((login) => [
    login.host === DOCKER_HUB ? HUB_KEY : login.host,
    { auth: encode(login) },
  ]);
  return JSON.stringify({ ...rest, auths: { ...auths, ...Object.fromEntries(added) } });
}

function encode({ user, token }: Pick<RegistryLogin, "user" | "token">): string {
  return Buffer.from(`${user}:${token}`).toString("base64");
}
