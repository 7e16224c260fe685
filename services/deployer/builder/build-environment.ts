import { existsSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

/**
 * The variables of this process that a build sees: what its tools need to reach their registries like the machine's
 * user. HOME is the user's, for ~/.npmrc, pip's configuration and the tools' caches.
 */
const PASSED_VARIABLES = [
  /^(HOME|USER|LOGNAME|LANG|LC_ALL|TZ)$/,
  /^(https?|all|no)_proxy$/i,
  /^(NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE)$/,
  /^XDG_(CACHE|CONFIG|DATA)_HOME$/,
  // Not all of npm_config_*: npm sets those of Berth's own project for this process.
  /^npm_config_(registry|userconfig|globalconfig|cache|cafile|ca|proxy|https_proxy|noproxy)$/i,
  /^(PIP|PYENV)_/,
  /^GO(PROXY|PRIVATE|NOPROXY|SUMDB|NOSUMDB|FLAGS|PATH|MODCACHE|CACHE|TOOLCHAIN)$/,
];

/** Returns the environment of a build's commands, whose temporary files go to `tmp`. */
export function buildEnvironment(own: NodeJS.ProcessEnv, tmp: string): Record<string, string> {
  const kept = Object.entries(own).filter(([name]) => PASSED_VARIABLES.some((pattern) => pattern.test(name)));
  return {
    LANG: "C.UTF-8",
    NO_COLOR: "1",
    PIP_DISABLE_PIP_VERSION_CHECK: "1",
    npm_config_update_notifier: "false",
    ...(Object.fromEntries(kept) as Record<string, string>),
    PATH: toolPath(own.PATH ?? ""),
    TMPDIR: tmp,
  };
}

/** Returns a PATH of the Node.js that runs Berth, then the user's programs without those of Berth's own packages. */
function toolPath(path: string): string {
  const folders = path
    .split(delimiter)
    .filter((one) => one !== "" && !(one.includes("node_modules/") && /\/(\.bin|node-gyp-bin)$/.test(one)));
  return [...new Set([dirname(process.execPath), ...folders, "/usr/local/bin", "/usr/bin", "/bin"])].join(
    delimiter,
  );
}

export function hasProgram(name: string, path: string): boolean {
  return path.split(delimiter).some((folder) => existsSync(join(folder, name)));
}
