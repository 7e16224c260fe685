import { SERVICE_CONNECTIONS } from "../kit/postgres/connection.ts";
import { type ConfigOf, type Field, serviceFields, url } from "../kit/process/config.ts";
import { type Keyring, parseKeys } from "./seal/seal.ts";

/** The maximum number of connections to the database: one more than others, on which changes are signaled to streams. */
export const connections = SERVICE_CONNECTIONS + 1;

/** `ENCRYPTION_KEYS`: `id:base64`, comma separated; the first wraps data keys, all unwrap them. */
export const encryptionKeys: Field<Keyring> = {
  name: "ENCRYPTION_KEYS",
  parse: (value) => {
    if (value === undefined) throw new Error("is not set");
    return parseKeys(value);
  },
};

export const fields = {
  ...serviceFields,
  encryptionKeys,
  deployerUrl: url("DEPLOYER_URL", ["http", "https"]),
};

export type Config = ConfigOf<typeof fields>;
