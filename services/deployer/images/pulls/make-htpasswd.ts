import { writeFile } from "node:fs/promises";
import { hash } from "bcryptjs";
import { readConfig, text } from "../../../kit/process/config.ts";
import { readPushLogin } from "./push-login.ts";

// Before the bundled registry starts, whose login the operator gave: writes the file by which it knows the login. Not
// part of the chart, as a hash has another salt each time, and Argo CD renders without what is in the Secret.

const ROUNDS = 10;

try {
  const config = readConfig(process.env, {
    registryAuth: text("REGISTRY_AUTH"),
    registryPush: text("REGISTRY_PUSH"),
    file: text("HTPASSWD_FILE"),
  });
  const { user, password } = await readPushLogin(config.registryAuth, config.registryPush);
  await writeFile(config.file, `${user}:${await hash(password, ROUNDS)}\n`, { mode: 0o600 });
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 78;
}
