import type { Pool } from "../../kit/postgres/db.ts";
import { ConfigError } from "../../kit/process/config.ts";
import type { Provider } from "../stripe/provider.ts";
import { claimInstallation } from "./sql.ts";

/**
 * Throws ConfigError when the database belongs to an installation of another name at the payment provider: its customers
 * would pay prices, and their usage be reported to a meter, that are another's (docs/billing.md#two-installations).
 */
export async function requireOwnDatabase(pool: Pool, { installation }: Provider): Promise<void> {
  const name = await claimInstallation(pool, installation);
  if (name === installation) return;
  const wanted = name === "" ? "not be set" : `be ${name}`;
  throw new ConfigError(
    `STRIPE_INSTALLATION must ${wanted}: customers of this database were made under that name, which cannot change`,
  );
}
