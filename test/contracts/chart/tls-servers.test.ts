import { type ChildProcess, spawn } from "node:child_process";
import { chmod, chown, mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { V1Secret } from "@kubernetes/client-node";
import { connect } from "@nats-io/transport-node";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findNatsServer } from "../../../deploy/local/nats/install.ts";
import { findBinaries } from "../../../deploy/local/postgres/binaries.ts";
import { allowTraversal, findOsUser, type OsUser } from "../../../deploy/local/postgres/os-user.ts";
import { connectBus, natsServers } from "../../../services/kit/events/bus.ts";
import { createLog } from "../../../services/kit/log.ts";
import { createPool } from "../../../services/kit/postgres/db.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { programsDir } from "../../../services/kit/process/program.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { selfSignedCertificate } from "../../support/servers/certificate.ts";
import { configOf, GENERATED, helmProgram, ofKind, podsOf, renderInstall } from "./render.ts";

// PostgreSQL and NATS on this machine, as the chart configures and starts them with TLS, and the URLs that it gives.

describe.skipIf(!helmProgram)("the bundled servers with TLS", () => {
  let folder: string;
  let osUser: OsUser;
  let secrets: Map<string, Record<string, string>>;
  let given: { database: string; nats: string };
  const children: ChildProcess[] = [];
  const ports = { postgres: 0, nats: 0 };
  const hba: Record<string, string> = {};

  /** Gives the servers another certificate, as a Secret is updated. Returns the path of what vouches for it. */
  async function useCertificate(name: string): Promise<string> {
    const { key, cert } = selfSignedCertificate(name);
    const next = await mkdtemp(join(folder, "secret-"));
    await chmod(next, 0o755);
    for (const [file, text] of [
      ["tls.key", key],
      ["tls.crt", cert],
    ] as const) {
      await writeFile(join(next, file), text);
      // As in a pod, whose fsGroup is the group of the server: PostgreSQL refuses a key with looser permissions.
      if (osUser.uid !== undefined) await chown(join(next, file), 0, osUser.gid!);
      await chmod(join(next, file), osUser.uid === undefined ? 0o400 : 0o440);
    }
    await symlink(next, join(folder, "next"));
    await rename(join(folder, "next"), join(folder, "certificate"));
    const ca = join(folder, `${name}-${(await readdir(folder)).length}.crt`);
    await writeFile(ca, cert);
    return ca;
  }

  async function write(into: string, files: Record<string, string>): Promise<void> {
    await mkdir(join(folder, into, "data"), { recursive: true });
    for (const [name, text] of Object.entries(files))
      await writeFile(
        join(folder, into, name),
        text
          .replace("=/tmp", `=${join(folder, into)}`)
          .replaceAll("/etc/berth-certificate", join(folder, "certificate"))
          .replaceAll("/etc/berth-password", folder)
          .replaceAll("/etc/berth/", `${join(folder, into)}/`)
          .replace("/data", join(folder, into, "data"))
          .replace("listen_addresses='*'", "listen_addresses=localhost")
          .replace("port: 4222", `listen: "localhost:${ports.nats}"`)
          .replace("http: 8222", 'http: "127.0.0.1:-1"')
          .replace("sleep 30", "sleep 0.1"),
      );
  }

  function run(script: string, env: Record<string, string>, user: Partial<OsUser> = {}): void {
    const [file, ...args] = [...(user.prefix ?? []), "sh", script];
    const { uid, gid } = user;
    children.push(
      spawn(file!, args, { cwd: dirname(script), env: { LC_ALL: "C", ...env }, uid, gid, stdio: "ignore" }),
    );
  }

  let ca: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-tls-"));
    await chmod(folder, 0o755);
    const { postgres } = await findBinaries();
    await allowTraversal(folder);
    osUser = await findOsUser(folder, postgres);
    const [required, allowed] = await Promise.all(
      ["require", "allow"].map((mode) =>
        renderInstall("bundled", { ...GENERATED, "bundledTls.mode": `"${mode}"` }),
      ),
    );
    for (const [mode, manifests] of Object.entries({ require: required!, allow: allowed! }))
      hba[mode] = configOf(manifests, "berth-postgres")["pg_hba.conf"]!;
    secrets = new Map(
      ofKind<V1Secret>(required!, "Secret").map(({ metadata, data }) => [
        metadata!.name!,
        Object.fromEntries(
          Object.entries(data!).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]),
        ),
      ]),
    );
    const gateway = podsOf(required!).find(({ name }) => name === "Deployment/berth-gateway")!.spec;
    given = {
      database: configOf(required!, "berth-gateway").DATABASE_URL!,
      nats: gateway.containers[0]!.env!.find(({ name }) => name === "NATS_URL")!.value!,
    };
    [ports.postgres, ports.nats] = [await freePort(), await freePort()];
    ca = await useCertificate("localhost");
    await write("postgres", configOf(required!, "berth-postgres"));
    await write("nats", configOf(required!, "berth-nats"));
    await writeFile(join(folder, "password"), secrets.get("berth-database")!.admin!);
    const { uid, gid } = osUser.owner;
    for (const path of ["postgres", "postgres/data"]) await chown(join(folder, path), uid, gid);
    const bin = join(folder, "bin");
    await mkdir(bin);
    await symlink(await findNatsServer(programsDir, () => {}), join(bin, "nats-server"));
    const PATH = `${dirname(postgres)}:${bin}:${process.env.PATH}`;
    const PGDATA = join(folder, "postgres/data/pgdata");
    run(join(folder, "postgres/start.sh"), { PATH, PGDATA, PGPORT: String(ports.postgres) }, osUser);
    const passwords = Object.entries(secrets.get("berth-nats")!).map(([name, password]) => [
      `PASSWORD_${name.toUpperCase()}`,
      password,
    ]);
    run(join(folder, "nats/start.sh"), { PATH, ...Object.fromEntries(passwords) });
    await eventually("PostgreSQL answers", () => ask(databaseUrl(ca)).catch(() => false));
    await eventually("NATS answers", () => reach(natsUrl(ca)).catch(() => false));
  });

  afterAll(async () => {
    for (const child of children)
      if (child.exitCode === null && child.signalCode === null) {
        const ended = new Promise((done) => child.once("exit", done));
        // PostgreSQL ends its sessions.
        child.kill("SIGINT");
        await ended;
      }
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  /** The URL that the chart gives to the gateway, as the administrator, on this machine. */
  function databaseUrl(authority: string): string {
    const url = new URL(given.database.replace("/etc/berth/servers-ca/ca.crt", authority));
    url.username = "postgres";
    url.password = secrets.get("berth-database")!.admin!;
    [url.hostname, url.port, url.pathname] = ["localhost", String(ports.postgres), "/postgres"];
    return url.href;
  }

  function natsUrl(authority: string): string {
    return given.nats
      .replace("$(NATS_PASSWORD)", secrets.get("berth-nats")!.gateway!)
      .replace("berth-nats:4222", `localhost:${ports.nats}`)
      .replace("/etc/berth/servers-ca/ca.crt", authority);
  }

  /** Returns whether the connection of a process, at this URL, is encrypted. */
  async function ask(url: string): Promise<boolean> {
    const pool = createPool(url, { name: "test", max: 1 });
    try {
      const { rows } = await pool.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
      return rows[0].ssl;
    } finally {
      await pool.end();
    }
  }

  /** Connects once, as the bus does again and again. */
  async function reach(url: string): Promise<true> {
    const nc = await connect({ ...natsServers(url), reconnect: false, timeout: 5_000 });
    await nc.close();
    return true;
  }

  test("serve processes, which verify them", async () => {
    expect(await ask(databaseUrl(ca))).toBe(true);
    const bus = connectBus(natsUrl(ca), "test", createLog("test", "silent"));
    try {
      const { nc } = await bus.connected;
      expect(nc.info).toMatchObject({ tls_required: true });
      expect(await bus.check()).toHaveProperty("last");
    } finally {
      await bus.close();
    }
  });

  test("are refused by processes that trust another authority, or no other than the public ones", async () => {
    const other = join(folder, "other.crt");
    await writeFile(other, selfSignedCertificate("localhost").cert);
    const untrusted = /self-signed|unable to (verify|get)/;
    await expect(ask(databaseUrl(other))).rejects.toThrow(untrusted);
    await expect(reach(natsUrl(other))).rejects.toThrow(untrusted);
    await expect(ask(databaseUrl(ca).replace(/&sslrootcert=[^&]+/, ""))).rejects.toThrow(untrusted);
    await expect(reach(natsUrl(ca).replace(/\?ca=.+/, ""))).rejects.toThrow(untrusted);
  });

  test("refuse connections without TLS; with `allow`, PostgreSQL accepts them", async () => {
    const plain = databaseUrl(ca).replace(/\?.*/, "");
    await expect(ask(plain)).rejects.toThrow("no encryption");
    await expect(
      reach(
        natsUrl(ca)
          .replace(/^tls:/, "nats:")
          .replace(/\?ca=.+/, ""),
      ),
    ).rejects.toThrow();
    const file = join(folder, "postgres/pg_hba.conf");
    await writeFile(file, hba.allow!);
    await reload();
    await eventually("PostgreSQL accepts it", () =>
      ask(plain).then(
        (encrypted) => !encrypted,
        () => false,
      ),
    );
    expect(await ask(databaseUrl(ca))).toBe(true);
    await writeFile(file, hba.require!);
    await reload();
    await eventually("PostgreSQL refuses it", () =>
      ask(plain).then(
        () => false,
        () => true,
      ),
    );
  });

  async function reload(): Promise<void> {
    const client = new pg.Client({ connectionString: databaseUrl(ca) });
    await client.connect();
    await client.query("select pg_reload_conf()");
    await client.end();
  }

  test("take another certificate while they run; one for another name is refused", async () => {
    const before = ca;
    ca = await useCertificate("localhost");
    await eventually("PostgreSQL has it", () => ask(databaseUrl(ca)).catch(() => false));
    await eventually("NATS has it", () => reach(natsUrl(ca)).catch(() => false));
    await expect(ask(databaseUrl(before))).rejects.toThrow();
    await expect(reach(natsUrl(before))).rejects.toThrow();

    const elsewhere = await useCertificate("elsewhere.test");
    const wrongName = (asked: Promise<unknown>) =>
      asked.then(
        () => false,
        (error) => /altnames|Hostname/.test(String(error)),
      );
    await eventually("PostgreSQL is refused", () => wrongName(ask(databaseUrl(elsewhere))));
    await eventually("NATS is refused", () => wrongName(reach(natsUrl(elsewhere))));
  });
});
