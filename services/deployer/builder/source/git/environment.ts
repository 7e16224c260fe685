import { join } from "node:path";
import { sourceFailure } from "../../build-failure.ts";
import type { GitBuildSource } from "../../port.ts";

/** Returns the folder of the throw-away repository in a build's temporary folder. */
export function repositoryFolder(tmp: string): string {
  return join(tmp, "repository");
}

const SETTINGS: [string, string][] = [
  ["core.hooksPath", "/dev/null"],
  ["core.bigFileThreshold", "32m"],
  ["fetch.unpackLimit", "1"], // one pack, whose size is limited
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["submodule.recurse", "false"],
  ["http.followRedirects", "initial"],
  ["http.lowSpeedLimit", "1"],
  ["http.lowSpeedTime", "60"],
];

/**
 * Returns the environment of git: without the settings and credentials of this machine's user, and without any prompt.
 * The credential helper answers for the repository's own origin only, so that a redirect does not carry the token to
 * another host. Throws `git_token_invalid` when the token cannot be a password.
 */
export function gitEnvironment(
  env: Record<string, string>,
  tmp: string,
  { repository, token }: GitBuildSource,
): Record<string, string> {
  const settings = [...SETTINGS];
  const { user, password } = parseToken(token);
  if (token !== undefined) {
    const helper = `!f() { test "$1" = get && printf 'username=%s\\npassword=%s\\n' "$BERTH_GIT_USER" "$BERTH_GIT_PASSWORD"; }; f`;
    settings.push([`credential.${new URL(repository).origin}.helper`, helper]);
  }
  const authorities = env.CURL_CA_BUNDLE ?? env.SSL_CERT_FILE;
  return {
    ...env,
    LANG: "C.UTF-8",
    LC_ALL: "C.UTF-8",
    HOME: tmp,
    XDG_CONFIG_HOME: tmp,
    GIT_DIR: repositoryFolder(tmp),
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "",
    GIT_ALLOW_PROTOCOL: "http:https",
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([name, value], at) => [
        [`GIT_CONFIG_KEY_${at}`, name],
        [`GIT_CONFIG_VALUE_${at}`, value],
      ]),
    ),
    ...(authorities !== undefined && { GIT_SSL_CAINFO: authorities }),
    ...(token !== undefined && { BERTH_GIT_USER: user, BERTH_GIT_PASSWORD: password }),
  };
}

/**
 * Splits `user:token`. A token alone gets a stand-in user, because hosts that take a token as the password either
 * accept any user or document the one to give.
 */
export function parseToken(token = ""): { user: string; password: string } {
  if (/\p{Cc}/u.test(token))
    throw sourceFailure("git_token_invalid", "The token contains a line break or another control character.");
  const at = token.indexOf(":");
  return at > 0
    ? { user: token.slice(0, at), password: token.slice(at + 1) }
    : { user: "x-access-token", password: token };
}
