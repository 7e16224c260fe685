import { stat } from "node:fs/promises";
import { userInfo } from "node:os";
import { delimiter, dirname, isAbsolute, join } from "node:path";
import { LOOPBACK } from "../data/data-folder.ts";
import { exitCodes } from "../failure.ts";
import { type Options, projectDir } from "./options.ts";

/** Exits that another start cannot cure: somebody has to act. */
const LASTING = ["usage", "natsMissing", "folderTaken", "folderDamaged", "wrongKey", "cannotRun"] as const;

/**
 * Returns a systemd unit that starts Berth with these options, as the user who owns the project. What it takes away
 * from the processes is what neither builds nor PostgreSQL need.
 */
export async function systemdUnit(options: Options, env = process.env): Promise<string> {
  const node = process.execPath;
  const command = [node, join(projectDir, "deploy/local/main.ts"), ...argumentsOf(options)];
  const user = await ownerOf(projectDir);
  return `[Unit]
Description=Berth on one machine
Documentation=file://${join(projectDir, "docs/one-machine-proxy.md").replaceAll("%", "%%")}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
# Apps run as this user, too: give Berth a user of its own. Their walls need namespaces, and a /proc of which nothing is
# hidden or protected: so no ProtectKernelTunables, ProtectKernelLogs or RestrictNamespaces here.
User=${user}
WorkingDirectory=${projectDir.replaceAll("%", "%%")}
Environment=${quoted(`PATH=${pathOf(node, env)}`)}
# SMTP_URL, STRIPE_SECRET_KEY and the like, if the file exists: NAME=value, one on each line, mode 0600.
EnvironmentFile=-/etc/berth.env
ExecStart=${command.map(argument).join(" ")}

Restart=on-failure
RestartSec=5
RestartPreventExitStatus=${LASTING.map((kind) => exitCodes[kind]).join(" ")}
# The launcher stops everything in order within 10 s. What it left is killed.
KillMode=mixed
TimeoutStopSec=30
# One app that takes too much memory does not end the others, or Berth.
OOMPolicy=continue
# Apps are held to their sizes in groups below this one: so no ProtectControlGroups here.
Delegate=cpu memory pids
LimitNOFILE=65536

NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=full
ProtectKernelModules=yes
ProtectClock=yes
ProtectHostname=yes
LockPersonality=yes
RestrictRealtime=yes

[Install]
WantedBy=multi-user.target
`;
}

function argumentsOf({ data, port, publicUrl, appsDomain, listen }: Options): string[] {
  const given = {
    "--data": data,
    "--port": port,
    "--public-url": publicUrl,
    "--apps-domain": appsDomain,
    "--listen": listen === LOOPBACK ? undefined : listen,
  };
  return Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [name, String(value ?? "none")],
  );
}

/** Returns the user who owns a folder, or the one of this process, where another has no name here. */
async function ownerOf(folder: string): Promise<string | number> {
  const { uid } = await stat(folder);
  const self = userInfo();
  return uid === self.uid ? self.username : uid;
}

/** Returns where builds find programs: this Node first, then what the shell has, less what npm added for this project. */
function pathOf(node: string, env: NodeJS.ProcessEnv): string {
  const shell = (env.PATH ?? "").split(delimiter);
  const kept = shell.filter((dir) => isAbsolute(dir) && !dir.includes("/node_modules/"));
  return [...new Set([dirname(node), ...kept])].join(delimiter);
}

/** Quotes a word of a unit (systemd.syntax(7)): specifiers begin with a percent sign. */
function quoted(word: string): string {
  return `"${word.replace(/["\\]/g, "\\$&").replaceAll("%", "%%")}"`;
}

/** Quotes an argument of a command, in which a dollar sign would begin a variable. */
function argument(word: string): string {
  return /^[\w./:=@-]+$/.test(word) ? word : quoted(word).replaceAll("$", "$$$$");
}
